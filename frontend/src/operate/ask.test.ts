import { describe, expect, it } from "vitest";
import { ApiError } from "@/lib/api";
import { operationView } from "@/testing/views";
import { bodyOf, inTheWay, operationIn, pathOf, type Ask } from "./ask";

const ask: Ask = { method: "POST", path: "/nodes/n1/drain", body: { deep: true } };

describe("asking for an operation", () => {
  it("is tried at the address where it is done", () => {
    expect(pathOf(ask, {})).toBe("/nodes/n1/drain");
    expect(pathOf(ask, { dryRun: true })).toBe("/nodes/n1/drain?dry_run=true");
    expect(pathOf(ask, { dryRun: true, queue: true })).toBe("/nodes/n1/drain?dry_run=true&on_conflict=queue");
  });

  it("says why only where a reason is taken", () => {
    expect(bodyOf(ask, {})).toEqual({ deep: true });
    expect(bodyOf(ask, { reason: " disk fails " })).toEqual({ deep: true, reason: "disk fails" });
  });

  it("finds the operation in the answer, or as the answer", () => {
    const operation = operationView();
    expect(operationIn({ node: {}, operation })).toBe(operation);
    expect(operationIn(operation)).toBe(operation);
    expect(operationIn({ pool: { id: "p" }, operation: null })).toBeNull();
    expect(operationIn(undefined)).toBeNull();
  });

  it("knows what is in the way from any other refusal", () => {
    const conflict = new ApiError(409, "operation_conflict", "Busy.", null, { operation: "o7" });
    expect(inTheWay(conflict)).toEqual({ message: "Busy.", operation: "o7" });
    expect(inTheWay(new ApiError(409, "stale_generation", "Changed."))).toBeNull();
    expect(inTheWay(new ApiError(409, "operation_conflict", "Busy."))).toEqual({ message: "Busy.", operation: null });
  });
});
