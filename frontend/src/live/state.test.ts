import { describe, expect, it } from "vitest";
import {
  deploymentView,
  eventMessage,
  nodeView,
  operationView,
  snapshotMessage,
  telemetryFrame,
} from "@/testing/views";
import { OperationState, type ConsoleMessage } from "@/generated/contracts";
import { EMPTY, FRAME_SECONDS, isNewer, reduce, serverNow, type LiveState } from "./state";

function after(messages: readonly ConsoleMessage[], start: LiveState = EMPTY): LiveState {
  return messages.reduce((state, message) => reduce(state, { type: "message", message, at: 1000 }), start);
}

/** What a snapshot carries, without what only this browser knows. */
const data = ({ seq, deployments, nodes, operations, models, frames }: LiveState) => ({
  seq,
  deployments,
  nodes,
  operations,
  models,
  frames,
});

describe("the live state", () => {
  it("ignores events before the first snapshot", () => {
    const state = after([eventMessage("200-0", { type: "node.changed", node: nodeView() })]);
    expect(state.nodes).toEqual([]);
    expect(state.seq).toBeNull();
  });

  it("drops events that are not newer than what it holds", () => {
    const state = after([
      snapshotMessage({ seq: "100-5", deployments: [deploymentView({ status: "now" })] }),
      eventMessage("100-5", { type: "deployment.changed", deployment: deploymentView({ status: "same" }) }),
      eventMessage("99-9", { type: "deployment.removed", name: "small" }),
    ]);
    expect(state.deployments.map((one) => one.status)).toEqual(["now"]);
    expect(state.seq).toBe("100-5");
  });

  it("compares stream positions as numbers", () => {
    expect(isNewer("1000-2", "999-10")).toBe(true);
    expect(isNewer("1000-10", "1000-9")).toBe(true);
    expect(isNewer("1000-9", "1000-10")).toBe(false);
    expect(isNewer("1000-9", "1000-9")).toBe(false);
  });

  it("is the same after snapshot and events as after a fresh snapshot", () => {
    const done = operationView({ state: OperationState.SUCCEEDED, finished_at: "2026-10-31T12:00:09+00:00" });
    const other = deploymentView({ name: "another" });
    const followed = after([
      snapshotMessage({
        deployments: [deploymentView({ name: "gone" }), deploymentView()],
        operations: [operationView()],
        frames: [telemetryFrame(10)],
      }),
      eventMessage("101-0", { type: "deployment.removed", name: "gone" }),
      eventMessage("102-0", { type: "deployment.changed", deployment: other }),
      eventMessage("103-0", { type: "node.changed", node: nodeView() }),
      eventMessage("104-0", { type: "operation.changed", operation: done }),
      eventMessage("105-0", { type: "telemetry.tick", frame: telemetryFrame(11) }),
    ]);
    const fresh = after([
      snapshotMessage({
        seq: "105-0",
        deployments: [deploymentView(), other],
        nodes: [nodeView()],
        operations: [done],
        frames: [telemetryFrame(10), telemetryFrame(11)],
      }),
    ]);
    expect(data(followed)).toEqual(data(fresh));
  });

  it("replaces everything by a later snapshot", () => {
    const state = after([
      snapshotMessage({ deployments: [deploymentView()], frames: [telemetryFrame(10)] }),
      snapshotMessage({ seq: "300-0", nodes: [nodeView()] }),
    ]);
    expect(state.deployments).toEqual([]);
    expect(state.frames).toEqual([]);
    expect(state.nodes).toHaveLength(1);
  });

  it("keeps the same lists when an event concerns others", () => {
    const before = after([snapshotMessage({ deployments: [deploymentView()] })]);
    const next = after([eventMessage("101-0", { type: "telemetry.tick", frame: telemetryFrame(10) })], before);
    expect(next.deployments).toBe(before.deployments);
    expect(next.operations).toBe(before.operations);
  });

  it("keeps ten minutes of frames, in order, one per second", () => {
    const seconds = Array.from({ length: FRAME_SECONDS + 50 }, (_, at) => at);
    const state = after([
      snapshotMessage(),
      ...seconds.map((second) =>
        eventMessage(`${200 + second}-0`, { type: "telemetry.tick", frame: telemetryFrame(second) }),
      ),
      eventMessage("5000-0", { type: "telemetry.tick", frame: telemetryFrame(300, { received: 7 }) }),
    ]);
    expect(state.frames).toHaveLength(FRAME_SECONDS);
    expect(state.frames.map((one) => one.second)).toEqual(seconds.slice(50));
    expect(state.frames.find((one) => one.second === 300)?.deployments[0]?.received).toBe(7);
  });

  it("shows an operation told in an answer, but never over what an event told of it", () => {
    const asked = reduce(after([snapshotMessage()]), { type: "asked", operation: operationView() });
    expect(asked.operations).toHaveLength(1);
    const done = operationView({ state: OperationState.SUCCEEDED, finished_at: "2026-10-31T12:00:09+00:00" });
    const finished = after([eventMessage("101-0", { type: "operation.changed", operation: done })], asked);
    expect(reduce(finished, { type: "asked", operation: operationView() }).operations).toEqual([done]);
  });

  it("survives an event kind it does not know", () => {
    const unknown = { type: "weather.changed" } as never;
    const state = after([snapshotMessage(), eventMessage("101-0", unknown)]);
    expect(state.seq).toBe("101-0");
  });
});

describe("the connection", () => {
  it("is stale on the server's word until a snapshot, whatever else arrives", () => {
    const message: ConsoleMessage = { type: "stale", reason: "Redis is away" };
    const told = reduce(after([snapshotMessage()]), { type: "message", message, at: 6000 });
    expect(told.connection).toMatchObject({ phase: "stale", reason: "Redis is away", since: 1000 });
    const still = after([eventMessage("101-0", { type: "node.changed", node: nodeView() })], told);
    expect(still.connection.phase).toBe("stale");
    expect(still.nodes).toHaveLength(1);
    expect(after([snapshotMessage({ seq: "102-0" })], still).connection.phase).toBe("live");
  });

  it("is stale after silence until the next message", () => {
    const silent = reduce(after([snapshotMessage()]), { type: "silent", at: 9000 });
    expect(silent.connection).toMatchObject({ phase: "stale", since: 1000 });
    const back = after([eventMessage("101-0", { type: "telemetry.tick", frame: telemetryFrame(1) })], silent);
    expect(back.connection.phase).toBe("live");
  });

  it("remembers since when it was lost over several attempts", () => {
    const lost = reduce(after([snapshotMessage()]), { type: "lost", at: 5000 });
    expect(lost.connection).toEqual({ phase: "reconnecting", since: 1000 });
    expect(reduce(lost, { type: "lost", at: 8000 })).toBe(lost);
  });

  it("tells the server's time from the newest frame", () => {
    const state = after([
      snapshotMessage(),
      eventMessage("101-0", { type: "telemetry.tick", frame: telemetryFrame(50) }),
    ]);
    expect(serverNow(state, 1500)).toBe(50_500);
    expect(serverNow(EMPTY, 1500)).toBe(1500);
  });
});
