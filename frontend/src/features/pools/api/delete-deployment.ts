import { useMutation } from "@tanstack/react-query";
import type { OperationView } from "@/generated/contracts";
import { call } from "@/lib/api";
import { useNoteOperation } from "@/live/hooks";

export interface Deletion {
  readonly name: string;
  readonly reason: string;
}

export function useDeleteDeployment() {
  const note = useNoteOperation();
  return useMutation({
    onSuccess: ({ operation }) => note(operation),
    mutationFn: ({ name, reason }: Deletion) =>
      call<{ readonly operation: OperationView }>("DELETE", `/deployments/${encodeURIComponent(name)}`, { reason }),
  });
}
