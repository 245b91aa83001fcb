import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { UserRole } from "@/generated/contracts";
import { call } from "@/lib/api";
import type { Credential } from "./credentials";

export interface ManagementToken extends Credential {
  /** Whose rights it never exceeds; null: Tandem's own. */
  readonly owner: string | null;
  readonly role: UserRole;
  /** The only deployments that it may see and change; null means all. */
  readonly only: readonly string[] | null;
}

export interface NewToken {
  readonly name: string;
  readonly role: UserRole;
  readonly only?: readonly string[];
  readonly expires_in_days?: number;
}

export function useCreateToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (input: NewToken) => call<ManagementToken & { readonly token: string }>("POST", "/tokens", input),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tokens"] }),
  });
}
