import { describe, expect, it } from "vitest";
import { NodeDesired, NodePhase, WorkerDesired } from "@/generated/contracts";
import { deploymentView, nodeView, poolView, workerView } from "@/testing/views";
import { actionsOf, filtered, leavingOf, workersOn } from "./node-states";

describe("a node", () => {
  it("that is retired can't be made anything else", () => {
    expect(actionsOf(nodeView({ desired: NodeDesired.RETIRED }))).toEqual([]);
    expect(actionsOf(nodeView({ desired: NodeDesired.DRAINING }))).toContain("uncordon");
    expect(actionsOf(nodeView())).not.toContain("uncordon");
  });

  it("is found by name, address and label, and by either of its states", () => {
    const ready = nodeView({ name: "a", labels: ["rack=r7"] });
    const cordoned = nodeView({ name: "b", desired: NodeDesired.CORDONED });
    const retired = nodeView({ name: "c", desired: NodeDesired.RETIRED });
    const lost = nodeView({ name: "d", phase: NodePhase.LOST });
    const all = [ready, cordoned, retired, lost];
    expect(filtered(all, { text: "", state: "current" })).toEqual([ready, cordoned, lost]);
    expect(filtered(all, { text: "R7", state: "current" })).toEqual([ready]);
    expect(filtered(all, { text: "", state: NodeDesired.CORDONED })).toEqual([cordoned]);
    expect(filtered(all, { text: "", state: NodePhase.READY })).toEqual([ready, cordoned]);
    expect(filtered(all, { text: "", state: NodeDesired.RETIRED })).toEqual([retired]);
  });

  it("tells what its workers still have to finish, and nothing that is not known", () => {
    const leaving = workerView({
      id: "w1",
      desired: WorkerDesired.DRAIN,
      running: 3,
      handoffs: null,
      drain_left_s: 90,
    });
    const staying = workerView({ id: "w2", running: 9 });
    const elsewhere = workerView({ id: "w3", node_id: "n2" });
    const deployments = [deploymentView({ pools: [poolView({ workers: [leaving, staying, elsewhere] })] })];
    const placed = workersOn(nodeView(), deployments);
    expect(placed.map(({ worker }) => worker.id)).toEqual(["w1", "w2"]);
    expect(leavingOf(placed)).toEqual({ workers: 2, running: 3, handoffs: null, left_s: 90 });
  });
});
