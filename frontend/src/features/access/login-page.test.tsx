import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { answering } from "@/testing/answers";
import { renderConsole } from "@/testing/render";
import { LoginPage } from "./login-page";

const nobody = { user: null, csrf: "c", oidc: { name: "Lab SSO", url: "/api/v1/session/oidc" } };

afterEach(() => vi.unstubAllGlobals());

describe("the login", () => {
  it("offers the identity provider, and leads back to where one wanted to go", async () => {
    answering(() => [200, nobody]);
    renderConsole(<LoginPage />, { path: "/login?next=%2Ffleet" });
    const link = await screen.findByTestId("login-oidc");
    expect(link.textContent).toBe("Sign in with Lab SSO");
    expect(link.getAttribute("href")).toBe("/api/v1/session/oidc?next=%2Ffleet");
  });

  it("says what went wrong at the identity provider", async () => {
    answering(() => [200, nobody]);
    renderConsole(<LoginPage />, { path: "/login?problem=oidc_no_access" });
    await screen.findByTestId("login-oidc");
    expect(screen.getByRole("alert").textContent).toContain("Lab SSO knows you, but you have no access here.");
  });

  it("says for how long logins are refused after too many failures", async () => {
    answering(({ method }) =>
      method === "GET"
        ? [200, { ...nobody, oidc: null }]
        : [429, { code: "locked_out", detail: "Try again in 14 minutes." }],
    );
    renderConsole(<LoginPage />, { path: "/login" });
    await userEvent.type(screen.getByTestId("login-username"), "ada");
    await userEvent.type(screen.getByTestId("login-password"), "wrong");
    await userEvent.click(screen.getByTestId("login-submit"));
    expect((await screen.findByRole("alert")).textContent).toContain("Try again in 14 minutes.");
    expect(screen.queryByTestId("login-oidc")).toBeNull();
  });
});
