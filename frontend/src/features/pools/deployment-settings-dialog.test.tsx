import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { DeploymentView } from "@/generated/contracts";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { deploymentView } from "@/testing/views";
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
    expect((await screen.findByTestId("changes")).textContent).toContain("TTFT targetno promise → 800 ms");
    await userEvent.click(save());
    await waitFor(() => expect(onClose).toHaveBeenCalled());
    const sent = came.at(-1);
    expect(sent).toMatchObject({ method: "PATCH", path: "/deployments/small", ifMatch: '"a"' });
    expect(sent?.body).toEqual({ slo_ttft_s: 0.8, reason: "" });
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
