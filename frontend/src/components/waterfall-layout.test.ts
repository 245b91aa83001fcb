import { describe, expect, it } from "vitest";
import { requestTiming } from "@/testing/views";
import { layOut } from "./waterfall-layout";

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

describe("the waterfall", () => {
  it("has segments that add up to the time to first token", () => {
    const layout = layOut(requestTiming());
    expect(layout?.segments.map((segment) => segment.label)).toEqual([
      "Router",
      "Wait for prefill",
      "Prefill",
      "Network and other",
    ]);
    expect(sum(layout?.segments.map((segment) => segment.seconds) ?? [])).toBeCloseTo(0.2, 9);
    expect(sum(layout?.segments.map((segment) => segment.share) ?? [])).toBeCloseTo(1, 9);
  });

  it("shows what no segment explains as a segment of its own", () => {
    const layout = layOut(requestTiming({ segments: [{ name: "prefill", seconds: 0.15 }] }));
    const last = layout?.segments.at(-1);
    expect(last).toMatchObject({ label: "Unexplained", stage: "neutral" });
    expect(last?.seconds).toBeCloseTo(0.05, 9);
  });

  it("stays within its bar when segments claim more than there was", () => {
    const layout = layOut(requestTiming({ ttft_s: 0.1, segments: [{ name: "prefill", seconds: 0.2 }] }));
    expect(sum(layout?.segments.map((segment) => segment.share) ?? [])).toBeCloseTo(1, 9);
  });

  it("tells waiting for a stage from the stage itself", () => {
    const layout = layOut(requestTiming());
    expect(layout?.segments.map((segment) => [segment.stage, segment.level])).toEqual([
      ["neutral", 1],
      ["prefill", 3],
      ["prefill", 1],
      ["neutral", 2],
    ]);
  });

  it("shows a segment it has never heard of", () => {
    const layout = layOut(requestTiming({ segments: [{ name: "tool_call", seconds: 0.2 }] }));
    expect(layout?.segments.map((segment) => segment.label)).toEqual(["tool call"]);
  });

  it("does not exist for a request without a token", () => {
    expect(layOut(requestTiming({ ttft_s: null }))).toBeNull();
  });
});
