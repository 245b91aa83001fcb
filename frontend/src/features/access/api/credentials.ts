import { useMutation, useQueryClient } from "@tanstack/react-query";
import { call } from "@/lib/api";

/** Serving keys and management tokens are revoked and rotated alike. */
export type CredentialKind = "keys" | "tokens";

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
