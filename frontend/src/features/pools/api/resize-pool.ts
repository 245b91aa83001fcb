import { useMutation } from "@tanstack/react-query";
import type { OperationView, PoolView } from "@/generated/contracts";
import { call } from "@/lib/api";

export interface Resize {
  readonly poolId: string;
  /** The pool's generation that the operator saw. */
  readonly generation: number;
  readonly replicas: number;
  readonly reason: string;
}

export interface Resized {
  readonly pool: PoolView;
  readonly operation: OperationView;
}

export function useResizePool() {
  return useMutation({
    mutationFn: ({ poolId, ...change }: Resize) =>
      call<Resized>("PATCH", `/pools/${encodeURIComponent(poolId)}`, change),
  });
}
