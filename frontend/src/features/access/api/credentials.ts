import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callAll } from "@/lib/api";

/** Serving keys and management tokens are listed, revoked and rotated alike. */
export type CredentialKind = "keys" | "tokens";

/** A key or token as it is listed; the secret itself is shown once, when it is made. */
export interface Credential {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  /** To the minute. */
  readonly last_used_at: string | null;
  /** Until when the secret before the last rotation is good. */
  readonly previous_until: string | null;
}

export function useCredentials<T extends Credential>(kind: CredentialKind) {
  return useQuery({ queryKey: [kind], queryFn: () => callAll<T>(`/${kind}`) });
}

interface Rotated {
  readonly key?: string;
  readonly token?: string;
}

export function useRevoke(kind: CredentialKind) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => call<undefined>("DELETE", `/${kind}/${encodeURIComponent(id)}`),
    onSuccess: () => client.invalidateQueries({ queryKey: [kind] }),
  });
}

/** A new secret, shown this once; the old one stays good for `grace_s` more seconds. */
export function useRotate(kind: CredentialKind) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ id, grace_s }: { readonly id: string; readonly grace_s: number }) => {
      const rotated = await call<Rotated>("POST", `/${kind}/${encodeURIComponent(id)}/rotate`, { grace_s });
      return rotated.key ?? rotated.token ?? "";
    },
    onSuccess: () => client.invalidateQueries({ queryKey: [kind] }),
  });
}
