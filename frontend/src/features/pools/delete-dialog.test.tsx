import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { deploymentView, operationView, previewView, workerView } from "@/testing/views";
import { DeleteDialog } from "./delete-dialog";
import { WorkerActionDialog } from "./worker-actions";

const confirm = (): HTMLButtonElement => screen.getByTestId("operate-confirm");

afterEach(() => vi.unstubAllGlobals());

describe("deleting a deployment", () => {
  it("shows what would stop at once, and is done only when its name was typed", async () => {
    const preview = previewView({ stop: ["decode-1 on desk"] });
    const came = answering(() => [202, { operation: operationView({ preview }) }]);
    const onClose = vi.fn();
    renderConsole(<DeleteDialog opened deployment={deploymentView()} onClose={onClose} />);
    expect((await screen.findByTestId("preview-stop")).textContent).toContain("decode-1 on desk");
    expect(confirm().disabled).toBe(true);
    await userEvent.type(screen.getByLabelText("Type small to confirm"), "small");
    await userEvent.click(confirm());
    await waitFor(() => expect(onClose).toHaveBeenCalled());
    expect(came.map(({ method, path }) => [method, path])).toEqual([
      ["DELETE", "/deployments/small?dry_run=true"],
      ["DELETE", "/deployments/small"],
    ]);
  });
});

describe("restarting a worker", () => {
  it("says first that nothing serves meanwhile", async () => {
    const preview = previewView({ start: ["decode-1 on desk"], warnings: ["Nothing serves between a and b."] });
    answering(() => [202, { operation: operationView({ preview }) }]);
    renderConsole(<WorkerActionDialog action="restart" worker={workerView()} canFlip onClose={vi.fn()} />);
    expect((await screen.findByTestId("preview")).textContent).toContain("Nothing serves between a and b.");
  });
});
