import { describe, expect, it } from "vitest";
import { ago, axisDuration, bytes, count, duration, elapsed, percent, plural, rate, UNKNOWN } from "./format";

describe("formats", () => {
  it("show unknown as a dash, and zero as zero", () => {
    for (const format of [duration, elapsed, count, rate, bytes, percent]) {
      expect(format(null)).toBe(UNKNOWN);
      expect(format(0)).toMatch(/^0/);
    }
  });

  it("write latencies with three figures in the unit that fits", () => {
    expect(duration(0.00042)).toBe("0.42 ms");
    expect(duration(0.0873)).toBe("87.3 ms");
    expect(duration(0.2)).toBe("200 ms");
    expect(duration(0.9996)).toBe("1.00 s");
    expect(duration(12.34)).toBe("12.3 s");
    expect(duration(125)).toBe("2 min 05 s");
  });

  it("write spans", () => {
    expect(elapsed(59.9)).toBe("59 s");
    expect(elapsed(3600)).toBe("1 h 00 min");
    expect(elapsed(90_000)).toBe("1 d 1 h");
    expect(elapsed(-3)).toBe("0 s");
  });

  it("write counts, rates, sizes and shares", () => {
    expect(count(1204)).toBe("1,204");
    expect(count(38_200)).toBe("38.2k");
    expect(count(1_200_000)).toBe("1.20M");
    expect(rate(0.31)).toBe("0.3");
    expect(rate(112.4)).toBe("112");
    expect(bytes(512)).toBe("512 B");
    expect(bytes(1.5 * 1024 ** 3)).toBe("1.50 GiB");
    expect(percent(0.004)).toBe("< 1 %");
    expect(percent(0.425)).toBe("43 %");
    expect(plural(1, "worker")).toBe("1 worker");
    expect(plural(2, "retry", "retries")).toBe("2 retries");
  });

  it("write how long ago, never in the future", () => {
    const now = Date.parse("2026-10-31T12:00:00Z");
    expect(ago(null, now)).toBe("never");
    expect(ago("2026-10-31T12:00:05Z", now)).toBe("just now");
    expect(ago("2026-10-31T11:59:48Z", now)).toBe("12 s ago");
    expect(ago("2026-10-31T09:30:00Z", now)).toBe("2 h ago");
  });

  it("write axis labels without trailing zeros", () => {
    expect([0, 0.05, 0.25, 1.5].map(axisDuration)).toEqual(["0", "50 ms", "250 ms", "1.5 s"]);
  });
});
