import { expect, it } from "vitest";
import { sparkPath } from "./sparkline";

it("a sparkline starts a new stroke after each gap", () => {
  expect(sparkPath([1, 2, null, 3, null])).toMatch(/^M[^M]+L[^M]+M[^ML]+$/);
  expect(sparkPath([null, null])).toBe("");
  expect(sparkPath([0, 0])).toBe("M0.0 27.0L120.0 27.0");
});
