import { useMutation } from "@tanstack/react-query";
import type { OperationView } from "@/generated/contracts";
import { call } from "@/lib/api";

export interface Deletion {
  readonly name: string;
  readonly reason: string;
}

export function useDeleteDeployment() {
  return useMutation({
    mutationFn: ({ name, reason }: Deletion) =>
      call<{ readonly operation: OperationView }>("DELETE", `/deployments/${encodeURIComponent(name)}`, { reason }),
  });
}
