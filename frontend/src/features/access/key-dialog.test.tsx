import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { KeyDialog } from "./key-dialog";

afterEach(() => vi.unstubAllGlobals());

it("a new key has the class and the limits that were chosen, and no others", async () => {
  const came = answering(() => [201, { name: "ci", key: "sk-tandem-1" }]);
  renderConsole(<KeyDialog subject="new" onClose={vi.fn()} />);
  await userEvent.type(await screen.findByLabelText("Name"), "ci");
  await userEvent.click(screen.getByRole("combobox", { name: "Priority" }));
  await userEvent.click(await screen.findByRole("option", { name: "High: goes before all others" }));
  await userEvent.type(screen.getByLabelText("Tokens a minute"), "20000");
  await userEvent.click(screen.getByRole("button", { name: "Create" }));
  await screen.findByText("sk-tandem-1");
  expect(came[0]?.body).toMatchObject({
    name: "ci",
    priority_class: "high",
    tokens_per_minute: 20_000,
    requests_per_minute: null,
    max_concurrent: null,
  });
});

it("a limit that can't be is told at its field", async () => {
  answering(() => [400, { detail: "Too many.", code: "invalid", field: "tokens_per_minute" }]);
  renderConsole(<KeyDialog subject="new" onClose={vi.fn()} />);
  await userEvent.type(await screen.findByLabelText("Name"), "ci");
  await userEvent.click(screen.getByRole("button", { name: "Create" }));
  await waitFor(() => expect(screen.getByLabelText("Tokens a minute").getAttribute("aria-invalid")).toBe("true"));
  expect(screen.getByText("Too many.")).toBeTruthy();
});
