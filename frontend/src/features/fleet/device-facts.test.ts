import { describe, expect, it } from "vitest";
import { deviceView } from "@/testing/views";
import { factsOf, ranges, titleOf, troublesOf } from "./device-facts";

describe("a device", () => {
  it("tells only what is known of it", () => {
    expect(factsOf(deviceView())).toEqual([]);
    const known = deviceView({
      temperature_c: 61.4,
      power_w: 64,
      power_limit_w: 72,
      pcie_gen: 4,
      pcie_width: 16,
      nvlink_peers: ["gpu-1"],
    });
    expect(factsOf(known)).toEqual(["61 °C", "64 of 72 W", "PCIe 4×16", "NVLink to gpu-1"]);
  });

  it("that is a part of a card says of which", () => {
    const part = deviceView({ parent: "gpu-0", index: 2 });
    expect(titleOf(part)).toBe("MIG 2");
    expect(factsOf(part)).toEqual(["part of gpu-0"]);
  });

  it("has troubles only where there are any: no errors is none", () => {
    expect(troublesOf(deviceView({ ecc_uncorrected: 0, xid: 0 }))).toEqual([]);
    expect(troublesOf(deviceView({ ecc_uncorrected: 1, xid: 79, missing: true }))).toEqual([
      "Its node no longer reports it.",
      "1 memory error that ECC could not correct.",
      "Last driver error: XID 79.",
    ]);
  });

  it("draws runs of cores together", () => {
    expect(ranges([0, 1, 2, 3, 16])).toBe("0–3, 16");
  });
});
