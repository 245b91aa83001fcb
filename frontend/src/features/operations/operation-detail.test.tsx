import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { OperationState, StepState, UserRole, type OperationView } from "@/generated/contracts";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { operationView, whoView } from "@/testing/views";
import { OperationDetail } from "./operation-detail";

const running = operationView({
  cancellable: true,
  targets: [{ kind: "pool", id: "p1", name: "small/decode", href: "/pools?pool=p1" }],
  queued_behind: ["o7"],
  steps: [
    {
      at: "2026-10-31T12:00:00Z",
      finished_at: "2026-10-31T12:00:04Z",
      text: "Placed",
      state: StepState.DONE,
      cause: "",
    },
    { at: "2026-10-31T12:00:04Z", finished_at: null, text: "Loads", state: StepState.RUNNING, cause: "" },
  ],
});

const show = (operation: OperationView, role: UserRole = UserRole.OPERATOR, grants = {}) =>
  renderConsole(<OperationDetail operation={operation} />, { who: whoView({ role, grants }) });

afterEach(() => vi.unstubAllGlobals());

describe("an operation", () => {
  it("links to what it works on and to what it waits for, and shows how each step stands", () => {
    show(running);
    expect(screen.getByRole("link", { name: "small/decode" }).getAttribute("href")).toBe("/pools?pool=p1");
    expect(screen.getByRole("link", { name: "Operation o7" }).getAttribute("href")).toBe("/operations/o7");
    expect(screen.getAllByTestId("step").map((step) => step.dataset.state)).toEqual(["done", "running"]);
    expect(screen.getByText("4.00 s")).toBeTruthy();
  });

  it("is cancelled with a reason", async () => {
    const came = answering(() => [200, { ...running, state: OperationState.CANCELLED }]);
    show(running);
    await userEvent.click(screen.getByRole("button", { name: "Cancel" }));
    await userEvent.type(screen.getByLabelText("Reason"), "wrong pool");
    await userEvent.click(screen.getByTestId("operate-confirm"));
    expect(came).toMatchObject([{ method: "POST", path: "/operations/o1/cancel", body: { reason: "wrong pool" } }]);
  });

  it("is left alone by viewers, but not by those with a role on its deployment", () => {
    const { unmount } = show(running, UserRole.VIEWER);
    expect(screen.queryByRole("button", { name: "Cancel" })).toBeNull();
    unmount();
    show(running, UserRole.VIEWER, { small: UserRole.OPERATOR });
    expect(screen.getByRole("button", { name: "Cancel" })).toBeTruthy();
  });

  it("can be tried again only where the control plane says so", () => {
    show(operationView({ state: OperationState.FAILED, retryable: true, finished_at: "2026-10-31T12:00:09Z" }));
    expect(screen.getByRole("button", { name: "Retry" })).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Cancel" })).toBeNull();
  });
});
