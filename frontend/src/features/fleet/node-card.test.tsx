import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { NodeDesired, UserRole, WorkerDesired } from "@/generated/contracts";
import { renderConsole } from "@/testing/render";
import { deploymentView, deviceView, nodeView, poolView, whoView, workerView } from "@/testing/views";
import { NodeCard } from "./node-card";

describe("a node", () => {
  it("shows what is wanted of it and why, its warnings, and what ails its devices", () => {
    const node = nodeView({
      desired: NodeDesired.CORDONED,
      cordon_reason: "Memory test",
      warnings: ["Its clock is 41 s behind ours."],
      devices: [
        deviceView({ maintenance: true, maintenance_note: "Fan is loud", reserved_for: "chat" }),
        deviceView({ device_id: "gpu-1", id: 2, fault: "It fell off the bus." }),
      ],
    });
    renderConsole(<NodeCard node={node} deployments={[]} />);
    for (const text of [
      "Cordoned",
      "“Memory test”",
      "Its clock is 41 s behind ours.",
      "In maintenance: Fan is loud",
      "for chat only",
      "It fell off the bus.",
    ]) {
      expect(screen.getByText(text)).toBeTruthy();
    }
  });

  it("that is drained tells what is left", () => {
    const leaving = workerView({ desired: WorkerDesired.DRAIN, running: 3, handoffs: 1, drain_left_s: 90 });
    const deployments = [deploymentView({ pools: [poolView({ workers: [leaving] })] })];
    renderConsole(<NodeCard node={nodeView({ desired: NodeDesired.DRAINING })} deployments={deployments} />);
    expect(screen.getByTestId("draining").textContent).toContain(
      "1 worker left, with 3 requests and 1 hand-off to finish. The last is stopped in 1 min 30 s at the latest.",
    );
  });

  it("offers viewers nothing to change", () => {
    const node = nodeView({ devices: [deviceView()] });
    const { unmount } = renderConsole(<NodeCard node={node} deployments={[]} />);
    expect(screen.getByRole("button", { name: "More about desk" })).toBeTruthy();
    expect(screen.getByRole("button", { name: "Change GPU 0 of desk" })).toBeTruthy();
    unmount();
    renderConsole(<NodeCard node={node} deployments={[]} />, { who: whoView({ role: UserRole.VIEWER }) });
    expect(screen.queryByRole("button", { name: "More about desk" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Change GPU 0 of desk" })).toBeNull();
  });
});
