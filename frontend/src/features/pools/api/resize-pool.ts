import { useMutation } from "@tanstack/react-query";
import type { OperationView, PoolView } from "@/generated/contracts";
import { call } from "@/lib/api";
import { useNoteOperation } from "@/live/hooks";

export interface Resize {
  readonly poolId: string;
  /** The pool's generation that the operator saw. */
  readonly generation: number;
  readonly replicas: number;
  readonly reason: string;
}

export interface Resized {
  readonly pool: PoolView;
  /** Null when the pool had that size already. */
  readonly operation: OperationView | null;
}

export function useResizePool() {
  const note = useNoteOperation();
  return useMutation({
    onSuccess: ({ operation }: Resized) => operation && note(operation),
    mutationFn: ({ poolId, ...change }: Resize) =>
      call<Resized>("PATCH", `/pools/${encodeURIComponent(poolId)}`, change),
  });
}
