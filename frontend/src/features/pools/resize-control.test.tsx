import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { PoolView } from "@/generated/contracts";
import { renderConsole } from "@/testing/render";
import { operationView, poolView, previewView } from "@/testing/views";
import { ResizeControl } from "./resize-control";

const show = (pool: PoolView) => renderConsole(<ResizeControl pool={pool} slots={[]} disabled={false} />);

type Fetcher = ReturnType<typeof vi.fn<typeof fetch>>;

/** Trial runs go well; what is meant is answered with `status` and `body`. */
function answerWith(status: number, body: unknown): Fetcher {
  const fetcher = vi.fn<typeof fetch>((url) =>
    Promise.resolve(
      isTrial(url)
        ? new Response(JSON.stringify({ pool: poolView(), operation: operationView({ preview: PREVIEW }) }))
        : new Response(JSON.stringify(body), { status }),
    ),
  );
  vi.stubGlobal("fetch", fetcher);
  return fetcher;
}

const PREVIEW = previewView({ start: ["decode-2 on desk cpu-2"] });
const isTrial = (url: unknown): boolean => String(url).includes("dry_run=true");
const meant = (fetcher: Fetcher) => fetcher.mock.calls.filter(([url]) => !isTrial(url));

const button = (name: string | RegExp): HTMLButtonElement => screen.getByRole("button", { name });
const bodyOf = (fetcher: Fetcher): unknown => JSON.parse(meant(fetcher).at(-1)?.[1]?.body as string);

afterEach(() => vi.unstubAllGlobals());

describe("resizing a pool", () => {
  it("has nothing to apply until the number differs", async () => {
    show(poolView());
    expect(button("Resize decode").disabled).toBe(true);
    await userEvent.click(button("One decode replica more"));
    expect(button("Resize decode").disabled).toBe(false);
    await userEvent.click(button("One decode replica fewer"));
    expect(button("Resize decode").disabled).toBe(true);
  });

  it("stays within the pool's bounds", () => {
    show(poolView({ replicas: 8, max_replicas: 8, min_replicas: 8 }));
    expect(button("One decode replica more").disabled).toBe(true);
    expect(button("One decode replica fewer").disabled).toBe(true);
  });

  it("shows before and after, then sends the generation that was seen", async () => {
    const fetcher = answerWith(202, { pool: poolView(), operation: operationView() });
    show(poolView());
    await userEvent.click(button("One decode replica more"));
    await userEvent.click(button("Resize decode"));
    expect(screen.getByTestId("resize-before").textContent).toBe("1");
    expect(screen.getByTestId("resize-after").textContent).toBe("2");
    expect((await screen.findByTestId("preview-start")).textContent).toContain("decode-2 on desk cpu-2");
    expect(meant(fetcher)).toEqual([]);
    await userEvent.type(screen.getByLabelText("Reason"), "more traffic");
    await userEvent.click(button("Resize to 2"));
    await waitFor(() => expect(screen.queryByTestId("resize-before")).toBeNull());
    expect(meant(fetcher)[0]?.[0]).toBe("/api/v1/pools/pool-decode");
    expect(bodyOf(fetcher)).toEqual({ generation: 3, replicas: 2, reason: "more traffic" });
  });

  it("asks for a review when someone else was faster, and sends the new generation after it", async () => {
    const fetcher = answerWith(409, {
      code: "stale_generation",
      detail: "Changed.",
      field: "generation",
      current: { generation: 4, replicas: 3 },
    });
    show(poolView());
    await userEvent.click(button("One decode replica more"));
    await userEvent.click(button("Resize decode"));
    await userEvent.click(button("Resize to 2"));
    await screen.findByText("Someone changed it to 3");
    expect(button("Resize to 2").disabled).toBe(true);
    await userEvent.click(button("Review 3 → 2"));
    expect(screen.getByTestId("resize-before").textContent).toBe("3");
    await userEvent.click(button("Resize to 2"));
    await waitFor(() => expect(meant(fetcher)).toHaveLength(2));
    expect(bodyOf(fetcher)).toMatchObject({ generation: 4, replicas: 2 });
  });

  it("says why it was refused", async () => {
    answerWith(400, {
      code: "over_capacity",
      detail: "9 replicas need more slots than there are.",
      field: "replicas",
      current: null,
    });
    show(poolView());
    await userEvent.click(button("One decode replica more"));
    await userEvent.click(button("Resize decode"));
    await userEvent.click(button("Resize to 2"));
    expect((await screen.findByRole("alert")).textContent).toContain("9 replicas need more slots");
  });

  it("offers to wait behind an operation that is in the way", async () => {
    const fetcher = answerWith(409, {
      code: "operation_conflict",
      detail: '"Rebalance small" runs on small/decode.',
      current: { operation: "o7" },
    });
    show(poolView());
    await userEvent.click(button("One decode replica more"));
    await userEvent.click(button("Resize decode"));
    await userEvent.click(button("Resize to 2"));
    expect((await screen.findByTestId("conflict")).textContent).toContain("Rebalance small");
    expect(button("Resize to 2").disabled).toBe(true);
    await userEvent.click(button("Queue it"));
    await waitFor(() => expect(meant(fetcher)).toHaveLength(2));
    expect(meant(fetcher)[1]?.[0]).toBe("/api/v1/pools/pool-decode?on_conflict=queue");
  });
});
