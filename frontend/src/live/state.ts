// What the console knows, as one immutable value, and the pure function that brings it forward.

import type {
  ConsoleEvent,
  ConsoleMessage,
  DeploymentView,
  ModelView,
  NodeView,
  OperationView,
  Snapshot,
  TelemetryFrame,
} from "@/generated/contracts";

/** Seconds of telemetry kept: what the widest chart shows. */
export const FRAME_SECONDS = 600;
const OPERATIONS_KEPT = 50;

export type Connection =
  | { readonly phase: "connecting" }
  | { readonly phase: "live" }
  /** The socket is gone and comes back by itself. */
  | { readonly phase: "reconnecting"; readonly since: number }
  /** The socket stands, but what it brings can't be trusted to be current. */
  | { readonly phase: "stale"; readonly since: number; readonly reason: string; readonly until: "message" | "snapshot" }
  | { readonly phase: "signed-out" };

export interface LiveState {
  /** Position in the event stream; null until the first snapshot. */
  readonly seq: string | null;
  readonly deployments: readonly DeploymentView[];
  readonly nodes: readonly NodeView[];
  readonly operations: readonly OperationView[];
  readonly models: readonly ModelView[];
  /** Oldest first, at most one per second. */
  readonly frames: readonly TelemetryFrame[];
  readonly connection: Connection;
  /** Browser time of the last message. */
  readonly heardAt: number | null;
  /** The newest live frame's second and the browser time of its arrival: relates the server's clock to ours. */
  readonly serverClock: { readonly second: number; readonly at: number } | null;
}

export type LiveAction =
  | { readonly type: "message"; readonly message: ConsoleMessage; readonly at: number }
  | { readonly type: "lost"; readonly at: number }
  | { readonly type: "silent"; readonly at: number }
  | { readonly type: "signed-out" }
  /** An operation told in the answer to our own request: it may come before its event, or while there are none. */
  | { readonly type: "asked"; readonly operation: OperationView };

export const EMPTY: LiveState = {
  seq: null,
  deployments: [],
  nodes: [],
  operations: [],
  models: [],
  frames: [],
  connection: { phase: "connecting" },
  heardAt: null,
  serverClock: null,
};

export function reduce(state: LiveState, action: LiveAction): LiveState {
  switch (action.type) {
    case "message":
      return { ...receive(state, action.message, action.at), heardAt: action.at };
    case "lost":
      return state.connection.phase === "reconnecting"
        ? state
        : { ...state, connection: { phase: "reconnecting", since: state.heardAt ?? action.at } };
    case "silent":
      return state.connection.phase === "live"
        ? { ...state, connection: stale(state.heardAt ?? action.at, "The control plane has gone quiet.", "message") }
        : state;
    case "signed-out":
      return { ...state, connection: { phase: "signed-out" } };
    case "asked":
      // One that is known already came by an event, which may tell of later steps than the answer.
      return state.operations.some((one) => one.id === action.operation.id)
        ? state
        : withOperation(state, action.operation);
  }
}

function receive(state: LiveState, message: ConsoleMessage, at: number): LiveState {
  switch (message.type) {
    case "snapshot":
      return { ...state, ...fromSnapshot(message.snapshot), connection: { phase: "live" } };
    case "stale":
      return { ...state, connection: stale(state.heardAt ?? at, message.reason, "snapshot") };
    case "event": {
      if (state.seq === null) return state;
      const connection = awaitsSnapshot(state.connection) ? state.connection : live(state.connection);
      if (!isNewer(message.seq, state.seq)) return { ...state, connection };
      return { ...applyEvent(state, message.event, at), seq: message.seq, connection };
    }
  }
}

function stale(since: number, reason: string, until: "message" | "snapshot"): Connection {
  return { phase: "stale", since, reason, until };
}

function awaitsSnapshot(connection: Connection): boolean {
  return connection.phase === "stale" && connection.until === "snapshot";
}

function live(connection: Connection): Connection {
  return connection.phase === "live" ? connection : { phase: "live" };
}

type Data = Pick<LiveState, "seq" | "deployments" | "nodes" | "operations" | "models" | "frames">;

function fromSnapshot(snapshot: Snapshot): Data {
  return {
    seq: snapshot.seq,
    deployments: [...snapshot.deployments].sort(byName),
    nodes: [...snapshot.nodes].sort(byName),
    operations: [...snapshot.operations].sort(newestFirst).slice(0, OPERATIONS_KEPT),
    models: [...snapshot.models].sort(byName),
    frames: snapshot.frames.reduce(addFrame, []),
  };
}

function applyEvent(state: LiveState, event: ConsoleEvent, at: number): LiveState {
  switch (event.type) {
    case "deployment.changed":
      return { ...state, deployments: upsert(state.deployments, event.deployment, (one) => one.name, byName) };
    case "deployment.removed":
      return { ...state, deployments: state.deployments.filter((one) => one.name !== event.name) };
    case "node.changed":
      return { ...state, nodes: upsert(state.nodes, event.node, (one) => one.id, byName) };
    case "operation.changed":
      return withOperation(state, event.operation);
    case "model.changed":
      return { ...state, models: upsert(state.models, event.model, (one) => one.name, byName) };
    case "model.removed":
      return { ...state, models: state.models.filter((one) => one.name !== event.name) };
    case "telemetry.tick":
      return {
        ...state,
        frames: addFrame(state.frames, event.frame),
        serverClock: { second: event.frame.second, at },
      };
    default:
      return state; // an event of a newer control plane
  }
}

function withOperation(state: LiveState, operation: OperationView): LiveState {
  const operations = upsert(state.operations, operation, (one) => one.id, newestFirst);
  return { ...state, operations: operations.slice(0, OPERATIONS_KEPT) };
}

function upsert<T>(list: readonly T[], item: T, key: (item: T) => string, order: (a: T, b: T) => number): readonly T[] {
  return [...list.filter((other) => key(other) !== key(item)), item].sort(order);
}

function addFrame(frames: readonly TelemetryFrame[], frame: TelemetryFrame): readonly TelemetryFrame[] {
  const newest = frames.at(-1)?.second ?? -Infinity;
  const oldestKept = Math.max(newest, frame.second) - FRAME_SECONDS;
  const others = frames.filter((other) => other.second > oldestKept && other.second !== frame.second);
  if (frame.second <= oldestKept) return others;
  const all = [...others, frame];
  return frame.second < newest ? all.sort((a, b) => a.second - b.second) : all;
}

const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
  a.name < b.name ? -1 : a.name > b.name ? 1 : 0;

const newestFirst = (a: OperationView, b: OperationView): number =>
  Date.parse(b.requested_at) - Date.parse(a.requested_at) || (a.id < b.id ? -1 : 1);

/** Whether stream position `a` lies after `b`; positions are "<milliseconds>-<n>". */
export function isNewer(a: string, b: string): boolean {
  const [aMs, aN] = position(a);
  const [bMs, bN] = position(b);
  return aMs > bMs || (aMs === bMs && aN > bN);
}

function position(seq: string): [number, number] {
  const [ms, n] = seq.split("-");
  return [Number(ms), Number(n ?? 0)];
}

/** The server's time in milliseconds, as well as it is known. */
export function serverNow(state: LiveState, browserNow: number): number {
  const { serverClock } = state;
  return serverClock === null ? browserNow : serverClock.second * 1000 + (browserNow - serverClock.at);
}
