import { describe, expect, it } from "vitest";
import type { LinkView } from "@/generated/contracts";
import { cellsOf } from "./matrix";

const link = (source: string, target: string, changes: Partial<LinkView> = {}): LinkView => ({
  source,
  target,
  bytes_per_s: null,
  latency_s: null,
  measured_at: null,
  error: "",
  ...changes,
});

describe("the network between nodes", () => {
  it("is measured, failed or not known for each direction, and nothing to itself", () => {
    const links = [
      link("a", "b", { bytes_per_s: 100, latency_s: 0.001, measured_at: "2026-10-31T12:00:00Z" }),
      link("b", "a", { bytes_per_s: 50 }),
      link("a", "c", { error: "no route" }),
    ];
    const cells = cellsOf(links, ["a", "b", "c"]);
    expect(cells[0]?.map((cell) => cell.kind)).toEqual(["self", "measured", "failed"]);
    expect(cells[1]?.map((cell) => cell.kind)).toEqual(["measured", "self", "unknown"]);
    expect(cells[0]?.[1]).toMatchObject({ share: 1, latencyS: 0.001 });
    expect(cells[1]?.[0]).toMatchObject({ share: 0.5, latencyS: null });
    expect(cells[0]?.[2]).toMatchObject({ error: "no route" });
  });
});
