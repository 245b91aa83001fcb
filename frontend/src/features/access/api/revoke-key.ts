import { useMutation, useQueryClient } from "@tanstack/react-query";
import { call } from "@/lib/api";
import { KEYS_KEY } from "./list-keys";

export function useRevokeKey() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => call<undefined>("DELETE", `/keys/${encodeURIComponent(id)}`),
    onSuccess: () => client.invalidateQueries({ queryKey: KEYS_KEY }),
  });
}
