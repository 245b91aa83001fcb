import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { JoinTokenOpenView } from "@/generated/contracts";
import { call, callAll } from "@/lib/api";

const TOKENS_KEY = ["join-tokens"] as const;

/** Shown once. `command` is the one line to run on the new node. */
export interface JoinToken {
  readonly token: string;
  readonly expires_at: string;
  readonly command: string;
}

/** Those that can still be used. One that was used goes without a word of it here, so they are asked for again. */
export function useJoinTokens() {
  return useQuery({
    queryKey: TOKENS_KEY,
    queryFn: () => callAll<JoinTokenOpenView>("/join-tokens"),
    refetchInterval: 10_000,
  });
}

export function useCreateJoinToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (input: { readonly note: string; readonly ttl_s: number }) =>
      call<JoinToken>("POST", "/join-tokens", input),
    onSuccess: () => client.invalidateQueries({ queryKey: TOKENS_KEY }),
  });
}

export function useRevokeJoinToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) => call<undefined>("DELETE", `/join-tokens/${id}`),
    onSuccess: () => client.invalidateQueries({ queryKey: TOKENS_KEY }),
  });
}
