import { Modal } from "@mantine/core";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { describe, expect, it, vi } from "vitest";
import { renderConsole } from "@/testing/render";
import { SideDrawer } from "./side-drawer";

function Nested({ onClose }: { readonly onClose: () => void }) {
  const [asking, setAsking] = useState(false);
  return (
    <SideDrawer opened onClose={onClose} title="Drawer">
      <button type="button" onClick={() => setAsking(true)}>
        Ask
      </button>
      <Modal opened={asking} onClose={() => setAsking(false)} title="Dialog">
        <input aria-label="Reason" />
      </Modal>
    </SideDrawer>
  );
}

describe("a drawer", () => {
  it("stays open when Escape closes the dialog on top of it, and is closed by the next", async () => {
    const onClose = vi.fn();
    renderConsole(<Nested onClose={onClose} />);
    await userEvent.click(screen.getByRole("button", { name: "Ask" }));
    await userEvent.click(await screen.findByLabelText("Reason"));
    await userEvent.keyboard("{Escape}");
    await waitFor(() => expect(screen.queryByLabelText("Reason")).toBeNull());
    expect(onClose).not.toHaveBeenCalled();
    screen.getByRole("button", { name: "Ask" }).focus();
    await userEvent.keyboard("{Escape}");
    expect(onClose).toHaveBeenCalledTimes(1);
  });
});
