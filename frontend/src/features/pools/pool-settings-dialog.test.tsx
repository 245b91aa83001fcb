import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { poolView } from "@/testing/views";
import { PoolSettingsDialog } from "./pool-settings-dialog";

const pool = poolView({ min_replicas: 1, max_replicas: 8, labels: ["gen=h100"] });
const show = (onClose = vi.fn()) => ({
  onClose,
  ...renderConsole(<PoolSettingsDialog pool={pool} onClose={onClose} />),
});
const save = (): HTMLButtonElement => screen.getByTestId("operate-confirm");

afterEach(() => vi.unstubAllGlobals());

describe("limits and placement of a pool", () => {
  it("are tried and shown as before and after, then saved under the generation that was seen", async () => {
    const came = answering(() => [200, { pool: { ...pool, max_replicas: 12, generation: 4 }, operation: null }]);
    const { onClose } = show();
    expect(save().disabled).toBe(true);
    await userEvent.clear(screen.getByLabelText("Most workers"));
    await userEvent.type(screen.getByLabelText("Most workers"), "12");
    expect((await screen.findByTestId("changes")).textContent).toContain("Most workers8 → 12");
    await userEvent.type(screen.getByLabelText("Reason"), "More racks");
    await userEvent.click(save());
    await waitFor(() => expect(onClose).toHaveBeenCalled());
    expect(came.map(({ method, path, body }) => [method, path, body])).toEqual([
      ["PATCH", "/pools/pool-decode?dry_run=true", { generation: 3, max_replicas: 12 }],
      ["PATCH", "/pools/pool-decode", { generation: 3, max_replicas: 12, reason: "More racks" }],
    ]);
  });

  it("that can't be are refused before they are saved, in the control plane's words", async () => {
    answering(() => [400, { code: "invalid", detail: "The pool has 1 workers now, which is not 2 to 8." }]);
    show();
    await userEvent.clear(screen.getByLabelText("Fewest workers"));
    await userEvent.type(screen.getByLabelText("Fewest workers"), "2");
    expect((await screen.findByRole("alert")).textContent).toContain("not 2 to 8");
    expect(save().disabled).toBe(true);
  });

  it("that somebody changed meanwhile are not overwritten: what was entered is kept on top of theirs", async () => {
    answering(() => [200, { pool, operation: null }]);
    const { rerender } = show();
    await userEvent.clear(screen.getByLabelText("Most workers"));
    await userEvent.type(screen.getByLabelText("Most workers"), "12");
    rerender(<PoolSettingsDialog pool={{ ...pool, min_replicas: 0, generation: 4 }} onClose={vi.fn()} />);
    await screen.findByTestId("moved");
    expect(save().disabled).toBe(true);
    await userEvent.click(screen.getByRole("button", { name: "Go on from what it is now" }));
    expect(screen.getByLabelText<HTMLInputElement>("Fewest workers").value).toBe("0");
    expect(screen.getByLabelText<HTMLInputElement>("Most workers").value).toBe("12");
  });
});
