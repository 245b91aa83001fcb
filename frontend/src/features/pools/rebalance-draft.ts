// An edit of both pools at once that keeps the number of workers: one fewer here is one more there.

import { Role, type DeploymentView, type PoolView } from "@/generated/contracts";

export interface RebalanceDraft {
  readonly prefill: number;
  readonly decode: number;
  /** As the operator saw them. */
  readonly seen: Pair;
}

export interface Pair {
  readonly prefill: PoolView;
  readonly decode: PoolView;
}

/** The two pools of a deployment; null for one whose workers do both. */
export function pairOf(deployment: DeploymentView): Pair | null {
  const prefill = deployment.pools.find((pool) => pool.role === Role.PREFILL);
  const decode = deployment.pools.find((pool) => pool.role === Role.DECODE);
  return prefill && decode ? { prefill, decode } : null;
}

export function beginRebalance(seen: Pair): RebalanceDraft {
  return { prefill: seen.prefill.replicas, decode: seen.decode.replicas, seen };
}

/** With `change` more prefill workers and as many fewer decode workers; as it was where limits forbid that. */
export function shifted(draft: RebalanceDraft, change: number): RebalanceDraft {
  const next = { ...draft, prefill: draft.prefill + change, decode: draft.decode - change };
  return isWithin(draft.seen.prefill, next.prefill) && isWithin(draft.seen.decode, next.decode) ? next : draft;
}

export function isChanged(draft: RebalanceDraft): boolean {
  return draft.prefill !== draft.seen.prefill.replicas;
}

/** Whether somebody else changed a pool since the edit began. */
export function isOutdated(draft: RebalanceDraft, now: Pair): boolean {
  return now.prefill.generation > draft.seen.prefill.generation || now.decode.generation > draft.seen.decode.generation;
}

function isWithin(pool: PoolView, replicas: number): boolean {
  return replicas >= pool.min_replicas && replicas <= pool.max_replicas;
}
