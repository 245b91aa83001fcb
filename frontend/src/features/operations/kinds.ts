// Names and filters of operations.

import { OperationKind, OperationState, type OperationView } from "@/generated/contracts";

export const KIND_LABEL: Readonly<Record<OperationKind, string>> = {
  [OperationKind.DEPLOY]: "Deploy",
  [OperationKind.RESIZE]: "Resize",
  [OperationKind.REBALANCE]: "Rebalance",
  [OperationKind.FLIP]: "Flip",
  [OperationKind.ROLL_OUT]: "Roll out",
  [OperationKind.ROLL_BACK]: "Roll back",
  [OperationKind.RESTART_WORKER]: "Restart a worker",
  [OperationKind.DELETE]: "Delete",
  [OperationKind.DRAIN_NODE]: "Drain a node",
  [OperationKind.CORDON_NODE]: "Cordon a node",
  [OperationKind.UNCORDON_NODE]: "Uncordon a node",
  [OperationKind.RETIRE_NODE]: "Retire a node",
  [OperationKind.MEASURE_NETWORK]: "Measure the network",
  [OperationKind.FETCH_WEIGHTS]: "Fetch weights",
};

export const STATE_LABEL: Readonly<Record<OperationState, string>> = {
  [OperationState.QUEUED]: "Queued",
  [OperationState.RUNNING]: "Running",
  [OperationState.SUCCEEDED]: "Succeeded",
  [OperationState.FAILED]: "Failed",
  [OperationState.SUPERSEDED]: "Superseded",
  [OperationState.CANCELLED]: "Cancelled",
};

/** Empty: all. */
export interface Filters {
  readonly state: string;
  readonly kind: string;
  readonly text: string;
}

/** Stored operations and those that came live, each once and as it is now; the newest first. */
export function merged(
  stored: readonly OperationView[],
  live: readonly OperationView[],
  filters: Filters,
): readonly OperationView[] {
  const byId = new Map([...stored, ...live].map((operation) => [operation.id, operation]));
  return [...byId.values()].filter((operation) => matches(operation, filters)).sort(newestFirst);
}

function matches(operation: OperationView, { state, kind, text }: Filters): boolean {
  if (state !== "" && operation.state !== state) return false;
  if (kind !== "" && operation.kind !== kind) return false;
  const said = [operation.title, operation.reason, operation.outcome].join("\n").toLowerCase();
  return text === "" || said.includes(text.toLowerCase());
}

const newestFirst = (a: OperationView, b: OperationView): number =>
  Date.parse(b.requested_at) - Date.parse(a.requested_at) || (a.id < b.id ? -1 : 1);
