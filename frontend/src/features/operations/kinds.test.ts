import { describe, expect, it } from "vitest";
import { OperationKind, OperationState } from "@/generated/contracts";
import { operationView } from "@/testing/views";
import { merged } from "./kinds";

const ALL = { state: "", kind: "", text: "" };

describe("the list of operations", () => {
  const old = operationView({ id: "a", requested_at: "2026-10-31T10:00:00Z", state: OperationState.RUNNING });
  const now = { ...old, state: OperationState.SUCCEEDED };
  const later = operationView({ id: "b", requested_at: "2026-10-31T11:00:00Z", kind: OperationKind.FLIP });

  it("has each once, as it is now, the newest first", () => {
    expect(merged([old], [later, now], ALL)).toEqual([later, now]);
  });

  it("lets go of one that has left the state which is looked for", () => {
    expect(merged([old], [now], { ...ALL, state: OperationState.RUNNING })).toEqual([]);
    expect(merged([old], [], { ...ALL, state: OperationState.RUNNING })).toEqual([old]);
  });

  it("narrows by kind and by what is said", () => {
    expect(merged([old, later], [], { ...ALL, kind: OperationKind.FLIP })).toEqual([later]);
    const why = operationView({ id: "c", reason: "Disk of desk fails" });
    expect(merged([old, why], [], { ...ALL, text: "disk of" })).toEqual([why]);
  });
});
