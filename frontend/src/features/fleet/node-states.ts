// What operators can do with a node in each state, and which nodes a search is about.

import { NodeDesired, NodePhase, WorkerDesired, type DeploymentView, type NodeView } from "@/generated/contracts";
import type { PlacedWorker } from "@/live/hooks";

export type NodeAction = "cordon" | "uncordon" | "drain" | "retire";

const ACTIONS: Readonly<Record<NodeDesired, readonly NodeAction[]>> = {
  [NodeDesired.ACTIVE]: ["cordon", "drain", "retire"],
  [NodeDesired.CORDONED]: ["uncordon", "drain", "retire"],
  [NodeDesired.DRAINING]: ["uncordon", "cordon", "retire"],
  [NodeDesired.RETIRED]: [],
};

export function actionsOf(node: NodeView): readonly NodeAction[] {
  return ACTIONS[node.desired];
}

export interface NodeFilters {
  readonly text: string;
  /** A phase, a desired state, or "current": all but the retired. */
  readonly state: string;
}

/** Nodes whose name, address or label has the text, in this state. */
export function filtered(nodes: readonly NodeView[], { text, state }: NodeFilters): readonly NodeView[] {
  const wanted = text.trim().toLowerCase();
  return nodes.filter((node) => {
    const isRetired = node.desired === NodeDesired.RETIRED;
    if (state === "current" ? isRetired : node.desired !== state && (isRetired || node.phase !== state)) return false;
    return [node.name, node.hostname, node.address, ...node.labels].some((one) => one.toLowerCase().includes(wanted));
  });
}

export const STATE_FILTERS = [
  { value: "current", label: "All but retired" },
  { value: NodePhase.READY, label: "Ready" },
  { value: NodePhase.LOST, label: "Lost" },
  { value: NodeDesired.CORDONED, label: "Cordoned" },
  { value: NodeDesired.DRAINING, label: "Draining" },
  { value: NodeDesired.RETIRED, label: "Retired" },
];

/** Workers on a node, with their pools. */
export function workersOn(node: NodeView, deployments: readonly DeploymentView[]): readonly PlacedWorker[] {
  return deployments
    .flatMap((deployment) => deployment.pools)
    .flatMap((pool) => pool.workers.map((worker) => ({ worker, pool })))
    .filter(({ worker }) => worker.node_id === node.id);
}

export interface Leaving {
  readonly workers: number;
  /** Requests and hand-offs they still have; null where none of them is heard. */
  readonly running: number | null;
  readonly handoffs: number | null;
  /** Seconds until the last of them is stopped at the latest; null: none has a deadline. */
  readonly left_s: number | null;
}

/** What a node that is drained still has to finish. */
export function leavingOf(placed: readonly PlacedWorker[]): Leaving {
  const leaving = placed.filter(({ worker }) => worker.desired !== WorkerDesired.RUN).map(({ worker }) => worker);
  return {
    workers: placed.length,
    running: sum(leaving.map((worker) => worker.running)),
    handoffs: sum(leaving.map((worker) => worker.handoffs)),
    left_s: leaving.reduce<number | null>(
      (most, { drain_left_s: left }) => (left === null ? most : Math.max(most ?? 0, left)),
      null,
    ),
  };
}

function sum(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((all, one) => all + one, 0);
}
