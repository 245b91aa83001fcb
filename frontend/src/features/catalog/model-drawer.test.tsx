import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { UserRole } from "@/generated/contracts";
import { LiveStore } from "@/live/store";
import { answering, type Asked } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { modelView, snapshotMessage, whoView } from "@/testing/views";
import { ModelDrawer } from "./model-drawer";

const model = modelView({ path: "org/small" });

function show(role: UserRole = UserRole.OPERATOR, onClose = vi.fn()) {
  const store = new LiveStore();
  store.dispatch({ type: "message", message: snapshotMessage({ models: [model] }), at: 0 });
  renderConsole(<ModelDrawer name="small" onClose={onClose} />, { store, who: whoView({ role }) });
  return onClose;
}

/** Everything but writes is answered here. */
const reads = ({ path }: Asked) => {
  if (path.includes("/fit")) return [200, { model: "small", devices: [] }] as const;
  if (path.includes("/weights")) return [200, { items: [], next: null }] as const;
  return [200, model, { ETag: '"v1"' }] as const;
};

afterEach(() => vi.unstubAllGlobals());

describe("a model of the catalogue", () => {
  it("is changed as the version that was seen, once what changes was shown", async () => {
    const came = answering((asked) => (asked.method === "GET" ? reads(asked) : [200, model]));
    show();
    await userEvent.click(screen.getByRole("button", { name: "Change" }));
    await userEvent.type(await screen.findByLabelText("Licence"), "mit");
    expect((await screen.findByTestId("changes")).textContent).toContain("Licencenone given → mit");
    await userEvent.click(screen.getByTestId("operate-confirm"));
    await waitFor(() => expect(came.at(-1)).toMatchObject({ method: "PATCH", path: "/models/small", ifMatch: '"v1"' }));
    expect(came.at(-1)?.body).toEqual({ licence: "mit" });
  });

  it("that deployments use is not deleted, and why is said at once", async () => {
    const used = [409, { code: "model_used", detail: "small is used by chat. Delete those first." }] as const;
    answering((asked) => (asked.method === "GET" ? reads(asked) : used));
    show();
    await userEvent.click(screen.getByRole("button", { name: "Delete" }));
    expect((await screen.findByRole("alert")).textContent).toContain("small is used by chat.");
    expect(screen.getByTestId<HTMLButtonElement>("operate-confirm").disabled).toBe(true);
  });

  it("that nobody uses is deleted", async () => {
    const came = answering((asked) => (asked.method === "GET" ? reads(asked) : [204, null]));
    const onClose = show();
    await userEvent.click(screen.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(screen.getByTestId<HTMLButtonElement>("operate-confirm").disabled).toBe(false));
    await userEvent.click(screen.getByTestId("operate-confirm"));
    await waitFor(() => expect(onClose).toHaveBeenCalled());
    expect(came.at(-1)).toMatchObject({ method: "DELETE", path: "/models/small" });
  });

  it("is only looked at by viewers", () => {
    answering(reads);
    show(UserRole.VIEWER);
    expect(screen.queryByRole("button", { name: "Delete" })).toBeNull();
  });
});
