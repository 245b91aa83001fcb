import { describe, expect, it } from "vitest";
import { daysOf, isGood, stateOf } from "./lifetimes";

const NOW = Date.parse("2026-10-31T12:00:00Z");
const inDays = (days: number): string => new Date(NOW + days * 86_400_000).toISOString();

describe("a key or token", () => {
  it("is active, about to expire, expired or revoked", () => {
    expect(stateOf({ expires_at: null, revoked_at: null }, NOW)).toBe("Active");
    expect(stateOf({ expires_at: inDays(30), revoked_at: null }, NOW)).toBe("Active");
    expect(stateOf({ expires_at: inDays(3), revoked_at: null }, NOW)).toBe("Expires soon");
    expect(stateOf({ expires_at: inDays(-1), revoked_at: null }, NOW)).toBe("Expired");
    expect(stateOf({ expires_at: inDays(-1), revoked_at: inDays(-2) }, NOW)).toBe("Revoked");
  });

  it("is good until it has expired", () => {
    expect(isGood("Expires soon")).toBe(true);
    expect(isGood("Expired")).toBe(false);
  });

  it("may live for ever", () => {
    expect(daysOf("never")).toBeNull();
    expect(daysOf("90")).toBe(90);
  });
});
