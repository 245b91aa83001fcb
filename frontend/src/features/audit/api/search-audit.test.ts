import { describe, expect, it } from "vitest";
import { exportUrl, parametersOf } from "./search-audit";

const ALL = { text: "", actor: "", action: "", since: "", until: "" };

describe("a search in the audit trail", () => {
  it("includes the last day to its end", () => {
    const { since, until } = parametersOf({ ...ALL, since: "2026-10-30", until: "2026-10-30" });
    expect(Date.parse(until ?? "") - Date.parse(since ?? "")).toBe(86_400_000);
  });

  it("is exported as it is shown", () => {
    expect(exportUrl(ALL, "csv")).toBe("/api/v1/audit/export?format=csv");
    expect(exportUrl({ ...ALL, actor: "ada", action: "pool." }, "jsonl")).toBe(
      "/api/v1/audit/export?format=jsonl&actor=ada&action=pool.",
    );
  });
});
