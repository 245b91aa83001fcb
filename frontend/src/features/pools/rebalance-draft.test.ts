import { describe, expect, it } from "vitest";
import { Role } from "@/generated/contracts";
import { deploymentView, poolView } from "@/testing/views";
import { beginRebalance, isChanged, isOutdated, pairOf, shifted } from "./rebalance-draft";

const prefill = poolView({ id: "p", role: Role.PREFILL, replicas: 2, generation: 3 });
const decode = poolView({ id: "d", role: Role.DECODE, replicas: 3, generation: 5, min_replicas: 1 });
const seen = { prefill, decode };

describe("a rebalance", () => {
  it("keeps the number of workers", () => {
    const more = shifted(beginRebalance(seen), 1);
    expect([more.prefill, more.decode]).toEqual([3, 2]);
    expect(isChanged(more)).toBe(true);
    expect(isChanged(shifted(more, -1))).toBe(false);
  });

  it("stays within the limits of both pools", () => {
    const most = shifted(shifted(beginRebalance(seen), 1), 1);
    expect([most.prefill, most.decode]).toEqual([4, 1]);
    expect(shifted(most, 1)).toBe(most);
    const least = shifted(beginRebalance({ ...seen, prefill: { ...prefill, min_replicas: 2 } }), -1);
    expect(least.prefill).toBe(2);
  });

  it("notices when somebody else changed either pool", () => {
    const draft = beginRebalance(seen);
    expect(isOutdated(draft, seen)).toBe(false);
    expect(isOutdated(draft, { prefill, decode: { ...decode, generation: 6 } })).toBe(true);
  });

  it("is for deployments with two pools", () => {
    expect(pairOf(deploymentView({ pools: [prefill, decode] }))).toEqual(seen);
    expect(pairOf(deploymentView({ pools: [poolView({ role: Role.UNIFIED })] }))).toBeNull();
  });
});
