import { describe, expect, it } from "vitest";
import { loginProblem } from "./login-problem";

describe("a login through the identity provider", () => {
  it("that failed says why, and what to do", () => {
    expect(loginProblem("oidc_unreachable", "Corp SSO")).toBe(
      "Corp SSO did not answer. Try again, or sign in with a local account.",
    );
    expect(loginProblem("oidc_no_access", null)).toContain("Ask an administrator");
    expect(loginProblem("something_new", null)).toBe("The identity provider could not sign you in.");
    expect(loginProblem(null, "Corp SSO")).toBeNull();
  });
});
