import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { PriorityClass, UserRole } from "@/generated/contracts";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { whoView } from "@/testing/views";
import type { ServingKey } from "./api/keys";
import type { ManagementToken } from "./api/tokens";
import { KeysPage } from "./keys-page";
import { TokensPage } from "./tokens-page";

const same = {
  id: "c1",
  prefix: "tdm_ab",
  created_by: "ada",
  created_at: "2026-10-31T12:00:00Z",
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
  previous_until: null,
};
const key: ServingKey = {
  ...same,
  name: "support-bot",
  models: ["small"],
  priority_class: PriorityClass.HIGH,
  requests_per_minute: 60,
  tokens_per_minute: 20_000,
  max_concurrent: null,
};
const token: ManagementToken = { ...same, name: "scaler", owner: "ada", role: UserRole.OPERATOR, only: null };

const listing = (items: readonly unknown[]) =>
  answering(({ method }) => (method === "GET" ? [200, { items, next: null }] : [204, null]));

afterEach(() => vi.unstubAllGlobals());

describe("keys and tokens", () => {
  it("tell what they may do, each kind in its own columns", async () => {
    listing([key]);
    const keys = renderConsole(<KeysPage />);
    const row = within(await screen.findByTestId("key-row"));
    const parts = row.getAllByText(/./, { selector: "span.nowrap" }).map((part) => part.textContent);
    expect(parts).toEqual(expect.arrayContaining(["small", "High", "60 requests/min,", "20,000 tokens/min"]));
    expect(row.getByText("small · High priority · 60 requests/min · 20,000 tokens/min")).toBeTruthy();
    keys.unmount();
    listing([token]);
    renderConsole(<TokensPage />);
    expect((await screen.findByTestId("token-row")).textContent).toContain("of ada");
    expect(screen.getAllByText("all deployments")).not.toHaveLength(0);
  });

  it("are revoked after a question", async () => {
    const came = listing([token]);
    renderConsole(<TokensPage />);
    await userEvent.click(await screen.findByRole("button", { name: "More about scaler" }));
    await userEvent.click(await screen.findByRole("menuitem", { name: "Revoke" }));
    await userEvent.click(await screen.findByRole("button", { name: "Revoke" }));
    await waitFor(() => expect(came).toContainEqual(expect.objectContaining({ method: "DELETE", path: "/tokens/c1" })));
  });

  it("that have ended, or may only be looked at, offer nothing", async () => {
    listing([{ ...key, revoked_at: "2026-10-31T13:00:00Z" }]);
    const keys = renderConsole(<KeysPage />);
    await screen.findByText("Revoked");
    expect(screen.queryByRole("button", { name: "More about support-bot" })).toBeNull();
    keys.unmount();
    listing([key]);
    renderConsole(<KeysPage />, { who: whoView({ role: UserRole.VIEWER }) });
    await screen.findByTestId("key-row");
    expect(screen.queryByRole("button")).toBeNull();
  });

  it("say what they are for while there are none", async () => {
    listing([]);
    renderConsole(<KeysPage />);
    expect(await screen.findByText("No keys yet")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Create a key" })).toBeTruthy();
  });
});
