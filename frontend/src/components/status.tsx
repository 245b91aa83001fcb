import { Loader } from "@mantine/core";
import { NodeDesired, NodePhase, OperationState, WorkerPhase } from "@/generated/contracts";
import classes from "./status.module.css";

export type Tone = "good" | "busy" | "warn" | "bad";

interface StatusProps {
  readonly tone: Tone;
  readonly children: string;
  /** Something is under way and ends by itself. */
  readonly moving?: boolean;
}

/** A state in words, with a mark for its tone. The words carry the meaning; the colour only repeats it. */
export function Status({ tone, children, moving = false }: StatusProps) {
  return (
    <span className={classes.status} data-tone={tone}>
      {moving ? <Loader size={10} color="currentColor" aria-hidden /> : <span className={classes.dot} aria-hidden />}
      {children}
    </span>
  );
}

const WORKER: Readonly<Record<WorkerPhase, readonly [Tone, string, boolean]>> = {
  [WorkerPhase.ASSIGNED]: ["busy", "Assigned", true],
  [WorkerPhase.STARTING]: ["busy", "Starting", true],
  [WorkerPhase.LOADING]: ["busy", "Loading", true],
  [WorkerPhase.READY]: ["good", "Ready", false],
  [WorkerPhase.DRAINING]: ["busy", "Draining", true],
  [WorkerPhase.SWITCHING]: ["busy", "Switching", true],
  [WorkerPhase.STOPPING]: ["busy", "Stopping", true],
  [WorkerPhase.STOPPED]: ["busy", "Stopped", false],
  [WorkerPhase.BACKOFF]: ["warn", "Backing off", false],
  [WorkerPhase.FAILED]: ["bad", "Failed", false],
  [WorkerPhase.UNKNOWN]: ["warn", "Unknown", false],
};

const NODE: Readonly<Record<NodePhase, readonly [Tone, string, boolean]>> = {
  [NodePhase.JOINING]: ["busy", "Joining", true],
  [NodePhase.READY]: ["good", "Ready", false],
  [NodePhase.LOST]: ["bad", "Lost", false],
};

const OPERATION: Readonly<Record<OperationState, readonly [Tone, string, boolean]>> = {
  [OperationState.QUEUED]: ["busy", "Queued", false],
  [OperationState.RUNNING]: ["busy", "Running", true],
  [OperationState.SUCCEEDED]: ["good", "Succeeded", false],
  [OperationState.FAILED]: ["bad", "Failed", false],
  [OperationState.SUPERSEDED]: ["warn", "Superseded", false],
  [OperationState.CANCELLED]: ["warn", "Cancelled", false],
};

export function WorkerStatus({ phase }: { readonly phase: WorkerPhase }) {
  return <Labelled entry={WORKER[phase]} />;
}

export function NodeStatus({ phase }: { readonly phase: NodePhase }) {
  return <Labelled entry={NODE[phase]} />;
}

const DESIRED: Readonly<Record<NodeDesired, readonly [Tone, string, boolean] | null>> = {
  [NodeDesired.ACTIVE]: null,
  [NodeDesired.CORDONED]: ["warn", "Cordoned", false],
  [NodeDesired.DRAINING]: ["busy", "Draining", true],
  [NodeDesired.RETIRED]: ["busy", "Retired", false],
};

/** What is wanted of a node, where that is not the usual. */
export function NodeDesiredMark({ desired }: { readonly desired: NodeDesired }) {
  const entry = DESIRED[desired];
  return entry === null ? null : <Labelled entry={entry} />;
}

export function OperationStatus({ state }: { readonly state: OperationState }) {
  return <Labelled entry={OPERATION[state]} />;
}

function Labelled({ entry: [tone, label, moving] }: { readonly entry: readonly [Tone, string, boolean] }) {
  return (
    <Status tone={tone} moving={moving}>
      {label}
    </Status>
  );
}
