import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Role, type DeploymentView } from "@/generated/contracts";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { deploymentView, poolView } from "@/testing/views";
import type { RolloutPolicy } from "./api/get-rollout";
import { DeploymentSettingsDialog } from "./deployment-settings-dialog";

const policy: RolloutPolicy = {
  step: null,
  observe_s: 30,
  max_error_rate: 0.05,
  max_slo_miss_rate: 0.2,
  min_requests: 20,
  quiet_s: 300,
  step_deadline_s: 3600,
};

/** A control plane that has `now.is` at this moment, and refuses changes of anything else. */
function holding(now: { is: DeploymentView; version: string }) {
  return answering(({ method, path, ifMatch }) => {
    if (path.endsWith("/rollout")) return [200, { policy, rollout: null }];
    if (method === "GET") return [200, now.is, { ETag: now.version }];
    return ifMatch === now.version
      ? [200, now.is]
      : [412, { code: "stale_version", detail: "Changed.", current: now.is }];
  });
}

const show = (onClose = vi.fn()) => ({
  onClose,
  ...renderConsole(<DeploymentSettingsDialog name="small" onClose={onClose} />),
});
const save = (): HTMLButtonElement => screen.getByTestId("operate-confirm");
const field = (label: string): HTMLInputElement => screen.getByLabelText(label);

afterEach(() => vi.unstubAllGlobals());

describe("settings of a deployment", () => {
  it("are tried and shown, then saved as the version that was seen: only what differs is sent", async () => {
    const came = holding({ is: deploymentView(), version: '"a"' });
    const { onClose } = show();
    await userEvent.type(await screen.findByLabelText("TTFT target"), "800");
    expect((await screen.findByTestId("changes")).textContent).toMatch(/TTFT targetno promise → 800\sms/);
    await userEvent.click(save());
    await waitFor(() => expect(onClose).toHaveBeenCalled());
    const sent = came.at(-1);
    expect(sent).toMatchObject({ method: "PATCH", path: "/deployments/small", ifMatch: '"a"' });
    expect(sent?.body).toEqual({ slo_ttft_s: 0.8, reason: "" });
  });

  it("say how requests find their workers; of unified ones nothing about hand-offs", async () => {
    const came = holding({ is: deploymentView(), version: '"a"' });
    const { unmount } = show();
    await userEvent.click(await screen.findByText("How requests find their workers"));
    await userEvent.clear(field("Read by decode itself"));
    await userEvent.type(field("Read by decode itself"), "9");
    await userEvent.type(field("Connection"), "1");
    const changes = await screen.findByTestId("changes");
    expect(changes.textContent).toContain("Read by decode itselfup to 64 tokens → up to 9 tokens");
    expect(changes.textContent).toMatch(/Connection withinthe router's limit → 1\ss/);
    await userEvent.click(save());
    await waitFor(() => expect(came.at(-1)?.method).toBe("PATCH"));
    expect(came.at(-1)?.body).toMatchObject({ local_prefill_tokens: 9, routing: { connect_s: 1, idle_s: null } });
    unmount();
    holding({ is: deploymentView({ pools: [poolView({ role: Role.UNIFIED })] }), version: '"a"' });
    show();
    await userEvent.click(await screen.findByText("How requests find their workers"));
    expect(screen.queryByLabelText("Read by decode itself")).toBeNull();
    expect(screen.getByLabelText("Connection")).toBeTruthy();
  });

  it("that somebody changed meanwhile are looked at again, with what was entered on top", async () => {
    const now = { is: deploymentView({ slo_tpot_s: 0.05 }), version: '"a"' };
    const came = holding(now);
    show();
    await userEvent.type(await screen.findByLabelText("TTFT target"), "800");
    await screen.findByTestId("changes");
    now.is = deploymentView({ slo_tpot_s: 0.04 });
    now.version = '"b"';
    await userEvent.click(save());
    await screen.findByTestId("moved");
    expect(save().disabled).toBe(true);
    await userEvent.click(screen.getByRole("button", { name: "Go on from what it is now" }));
    await waitFor(() => expect(field("TPOT target").value).toBe("40 ms"));
    expect(field("TTFT target").value).toBe("800 ms");
    await waitFor(() => expect(save().disabled).toBe(false));
    await userEvent.click(save());
    await waitFor(() => expect(came.at(-1)).toMatchObject({ path: "/deployments/small", ifMatch: '"b"' }));
  });
});
