import { describe, expect, it } from "vitest";
import { Role } from "@/generated/contracts";
import { poolFrame, telemetryFrame } from "@/testing/views";
import { column, newest, ofRole, recentMean, total, windowOf } from "./window";

describe("a window of telemetry", () => {
  const frames = [
    telemetryFrame(100, { received: 4 }),
    telemetryFrame(101, { received: 0 }),
    telemetryFrame(103, { received: 2 }),
  ];

  it("is evenly spaced, with gaps where no frame is, and zero where nothing happened", () => {
    const window = windowOf(frames, "small", 104, 5);
    expect(window.seconds).toEqual([99, 100, 101, 102, 103]);
    expect(column(window, (frame) => frame.received)).toEqual([null, 4, 0, null, 2]);
  });

  it("moves on when frames stop, so that silence becomes a gap", () => {
    const window = windowOf(frames, "small", 109, 5);
    expect(window.seconds.at(-1)).toBe(107);
    expect(column(window, (frame) => frame.received)).toEqual([2, null, null, null, null]);
    expect(newest(window, (frame) => frame.received, 3)).toBeNull();
  });

  it("knows nothing of a deployment that no frame mentions", () => {
    const window = windowOf(frames, "other", 104, 5);
    expect(total(window, (frame) => frame.received)).toBeNull();
    expect(recentMean(window, (frame) => frame.received)).toBeNull();
  });

  it("adds and averages over the known seconds only", () => {
    const window = windowOf(frames, "small", 104, 5);
    expect(total(window, (frame) => frame.received)).toBe(6);
    expect(recentMean(window, (frame) => frame.received)).toBe(2);
  });

  it("reads a pool by its role", () => {
    const window = windowOf([telemetryFrame(100, { pools: [poolFrame({ running: 3 })] })], "small", 100, 1);
    expect(
      column(
        window,
        ofRole(Role.DECODE, (pool) => pool.running),
      ),
    ).toEqual([3]);
    expect(
      column(
        window,
        ofRole(Role.PREFILL, (pool) => pool.running),
      ),
    ).toEqual([null]);
  });
});
