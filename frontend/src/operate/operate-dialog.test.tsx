import { fireEvent, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { operationView, previewView } from "@/testing/views";
import { OperateDialog } from "./operate-dialog";

const drained = operationView({ id: "o9", title: "Drain desk", preview: previewView({ stop: ["decode-1 on desk"] }) });
const conflict = [409, { code: "operation_conflict", detail: "Busy with o7.", current: { operation: "o7" } }] as const;

function show(onDone = vi.fn()) {
  const drawn = renderConsole(
    <OperateDialog
      opened
      onClose={() => undefined}
      onDone={onDone}
      title="Drain desk"
      ask={{ method: "POST", path: "/nodes/n1/drain" }}
      confirm="Drain"
      refused="desk stays as it was"
      hasPreview
    />,
  );
  return { ...drawn, onDone };
}

afterEach(() => vi.unstubAllGlobals());

describe("asking for something to be done", () => {
  it("is tried first, and done with the reason once it is confirmed", async () => {
    const came = answering(() => [202, { operation: drained }]);
    const { onDone, store } = show();
    expect((await screen.findByTestId("preview-stop")).textContent).toContain("decode-1 on desk");
    await userEvent.type(screen.getByLabelText("Reason"), "New disk");
    await userEvent.click(screen.getByTestId("operate-confirm"));
    await waitFor(() => expect(onDone).toHaveBeenCalledTimes(1));
    expect(came.map(({ path, body }) => [path, body])).toEqual([
      ["/nodes/n1/drain?dry_run=true", {}],
      ["/nodes/n1/drain", { reason: "New disk" }],
    ]);
    expect(store.get().operations.map((operation) => operation.id)).toEqual(["o9"]);
  });

  it("is done once for a double click, under a key of its own", async () => {
    const came = answering(() => [202, { operation: drained }]);
    const { onDone } = show();
    await screen.findByTestId("preview");
    const form = screen.getByTestId("operate-confirm").closest("form");
    if (form === null) throw new Error("the button is in no form");
    fireEvent.submit(form);
    fireEvent.submit(form);
    await waitFor(() => expect(onDone).toHaveBeenCalled());
    const meant = came.filter(({ path }) => path === "/nodes/n1/drain");
    expect(meant).toHaveLength(1);
    expect(meant[0]?.key).toMatch(/^[0-9a-f]{32}$/);
    expect(came[0]?.key).toBeNull();
  });

  it("that is in conflict offers to wait in the queue, and shows what is in the way", async () => {
    const came = answering(({ path }) =>
      path.includes("on_conflict=queue") ? [202, { operation: drained }] : conflict,
    );
    const { onDone } = show();
    expect((await screen.findByTestId("conflict")).textContent).toContain("Busy with o7.");
    expect(screen.getByRole("link", { name: "Show that operation" }).getAttribute("href")).toBe("/operations/o7");
    expect(screen.getByTestId<HTMLButtonElement>("operate-confirm").disabled).toBe(true);
    await userEvent.click(screen.getByTestId("queue-it"));
    await waitFor(() => expect(onDone).toHaveBeenCalled());
    expect(came.at(-1)?.path).toBe("/nodes/n1/drain?on_conflict=queue");
  });

  it("that is refused says why, in the control plane's words", async () => {
    answering(() => [403, { code: "forbidden", detail: "This needs the role operator." }]);
    show();
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("desk stays as it was");
    expect(alert.textContent).toContain("This needs the role operator.");
  });
});
