import { describe, expect, it } from "vitest";
import { changesOf } from "./changes";

describe("what an audit entry changed", () => {
  it("is told field by field, without what stayed", () => {
    expect(changesOf({ replicas: 1, labels: ["a"] }, { replicas: 2, labels: ["a"], operation: "o1" })).toEqual([
      { name: "replicas", before: "1", after: "2" },
      { name: "operation", before: null, after: "o1" },
    ]);
  });

  it("may be all of it, or nothing", () => {
    expect(changesOf(null, { name: "bot" })).toEqual([{ name: "name", before: null, after: "bot" }]);
    expect(changesOf("active", "cordoned")).toEqual([{ name: "", before: "active", after: "cordoned" }]);
    expect(changesOf(null, null)).toEqual([]);
  });
});
