import { useMutation, useQueryClient } from "@tanstack/react-query";
import { call } from "@/lib/api";
import { KEYS_KEY, type ServingKey } from "./list-keys";

export interface NewKey {
  readonly name: string;
  readonly expires_in_days?: number;
}

export type CreatedKey = ServingKey & { readonly key: string };

export function useCreateKey() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (input: NewKey) => call<CreatedKey>("POST", "/keys", input),
    onSuccess: () => client.invalidateQueries({ queryKey: KEYS_KEY }),
  });
}
