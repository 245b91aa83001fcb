import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { UserRole } from "@/generated/contracts";
import { call, callAll } from "@/lib/api";

/** A management token as it is listed; the token itself is shown once, when it is made. */
export interface ManagementToken {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  /** Whose rights it never exceeds; null: Tandem's own. */
  readonly owner: string | null;
  readonly role: UserRole;
  readonly only: readonly string[] | null;
  readonly created_by: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly last_used_at: string | null;
  readonly previous_until: string | null;
}

export interface NewToken {
  readonly name: string;
  readonly role: UserRole;
  readonly only?: readonly string[];
  readonly expires_in_days?: number;
}

const TOKENS_KEY = ["tokens"] as const;

export function useTokens() {
  return useQuery({ queryKey: TOKENS_KEY, queryFn: () => callAll<ManagementToken>("/tokens") });
}

export function useCreateToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (input: NewToken) => call<ManagementToken & { readonly token: string }>("POST", "/tokens", input),
    onSuccess: () => client.invalidateQueries({ queryKey: TOKENS_KEY }),
  });
}
