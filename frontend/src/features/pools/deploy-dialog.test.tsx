import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { LiveStore } from "@/live/store";
import { DEFAULT_ROUTING_POLICY } from "@/generated/contracts";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { deploymentView, modelView, operationView, previewView, snapshotMessage } from "@/testing/views";
import { DeployDialog } from "./deploy-dialog";
import { begin, missing, requestOf, sizeOf } from "./deploy-form";

const operation = operationView({
  id: "o3",
  title: "Deploy small",
  preview: previewView({ start: ["decode-1 on desk"] }),
});
const deployed = { deployment: deploymentView(), operation };

function show(onClose = vi.fn()) {
  const store = new LiveStore();
  store.dispatch({ type: "message", message: snapshotMessage({ models: [modelView()] }), at: 0 });
  return { onClose, ...renderConsole(<DeployDialog model="small" slots={[]} onClose={onClose} />, { store }) };
}

const deploy = (): HTMLButtonElement => screen.getByTestId("operate-confirm");

afterEach(() => vi.unstubAllGlobals());

describe("what is to be deployed", () => {
  it("is one prefill and one decode worker of the model, under its name, anywhere and without promises", () => {
    expect(missing(begin("small", []))).toBeNull();
    expect(requestOf(begin("small", []))).toMatchObject({
      name: "small",
      model: "small",
      prefill: 1,
      decode: 1,
      tensor_parallel: 1,
      strategy: "spread",
      prefill_labels: [],
      decode_labels: [],
      slo_ttft_s: null,
      slo_tpot_s: null,
      local_prefill_tokens: 64,
      routing: DEFAULT_ROUTING_POLICY,
    });
  });

  it("has a name that no deployment has yet", () => {
    expect(begin("small", ["other"]).name).toBe("small");
    expect(begin("small", ["small", "small-2"]).name).toBe("small-3");
  });

  it("has the counts and labels of its shape only", () => {
    const unified = requestOf({ ...begin("small", []), shape: "unified", unified: 3, labels: ["fast"] });
    expect(unified).toMatchObject({ unified: 3, labels: ["fast"] });
    expect(unified).not.toHaveProperty("prefill");
    expect(unified).not.toHaveProperty("decode_labels");
  });

  it("needs devices for each worker", () => {
    expect(sizeOf({ ...begin("small", []), decode: 3, tensor_parallel: 2 })).toEqual({ workers: 4, devices: 8 });
  });

  it("says what is left to be entered", () => {
    expect(missing(begin("", []))).toContain("Choose a model");
    expect(missing({ ...begin("small", []), name: " " })).toContain("name");
    expect(missing({ ...begin("small", []), decode: "" })).toContain("number");
    expect(missing({ ...begin("small", []), shape: "unified", decode: "" })).toBeNull();
  });
});

describe("deploying", () => {
  it("shows what would start before it is confirmed", async () => {
    const came = answering(() => [201, deployed]);
    const { onClose, store } = show();
    expect((await screen.findByTestId("preview-start")).textContent).toContain("decode-1 on desk");
    expect(came.map(({ path }) => path)).toEqual(["/deployments?dry_run=true"]);
    await userEvent.click(deploy());
    await waitFor(() => expect(onClose).toHaveBeenCalled());
    expect(came.at(-1)).toMatchObject({ method: "POST", path: "/deployments" });
    expect(store.get().operations.map(({ id }) => id)).toEqual(["o3"]);
  });

  it("has its requests find workers as it is said under Advanced", async () => {
    const came = answering(() => [201, deployed]);
    show();
    await userEvent.click(screen.getByText("Advanced: routing"));
    await userEvent.click(screen.getByLabelText(/by measured pace/));
    await userEvent.type(screen.getByLabelText("Next token"), "9");
    expect(screen.getByLabelText("Connection").getAttribute("placeholder")).toBe("2 s");
    await waitFor(() =>
      expect(came.at(-1)?.body).toMatchObject({
        local_prefill_tokens: 64,
        routing: { ...DEFAULT_ROUTING_POLICY, local_prefill_auto: true, idle_s: 9 },
      }),
    );
  });

  it("of unified workers has no hand-off to speak of", async () => {
    answering(() => [201, deployed]);
    show();
    await userEvent.click(screen.getByText("Unified"));
    await userEvent.click(screen.getByText("Advanced: routing"));
    expect(screen.queryByLabelText("Read by decode itself")).toBeNull();
    expect(screen.queryByLabelText("When a hand-off fails")).toBeNull();
    expect(screen.getByLabelText("Whole request")).toBeTruthy();
  });

  it("with a wait that can't be right says so at its field", async () => {
    const wrong = [400, { code: "invalid", detail: "idle_s is too long.", field: "routing.idle_s" }] as const;
    answering(({ body }) =>
      (body as { routing: { idle_s: number | null } }).routing.idle_s === null ? [201, deployed] : wrong,
    );
    show();
    await userEvent.click(screen.getByText("Advanced: routing"));
    await userEvent.type(screen.getByLabelText("Next token"), "99");
    await waitFor(() => expect(screen.getByLabelText("Next token").getAttribute("aria-invalid")).toBe("true"));
  });

  it("that can't be done says so at the field, before it is asked for, until it can", async () => {
    const tooMany = [400, { code: "no_capacity", detail: "Only 1 slot is free.", field: "decode" }] as const;
    answering(({ body }) => ((body as { decode: number }).decode > 1 ? tooMany : [201, deployed]));
    show();
    await screen.findByTestId("preview-start");
    await userEvent.clear(screen.getByLabelText("Decode workers"));
    await userEvent.type(screen.getByLabelText("Decode workers"), "3");
    const alert = await screen.findByRole("alert");
    expect(within(alert).getByText("Only 1 slot is free.")).toBeTruthy();
    expect(screen.getByLabelText("Decode workers").getAttribute("aria-invalid")).toBe("true");
    expect(deploy().disabled).toBe(true);
    await userEvent.clear(screen.getByLabelText("Decode workers"));
    await userEvent.type(screen.getByLabelText("Decode workers"), "1");
    await waitFor(() => expect(deploy().disabled).toBe(false));
    expect(screen.getByLabelText("Decode workers").getAttribute("aria-invalid")).not.toBe("true");
  });
});
