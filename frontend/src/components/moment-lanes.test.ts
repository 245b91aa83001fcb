import { describe, expect, it } from "vitest";
import { previewView } from "@/testing/views";
import { lanesOf } from "./moment-lanes";

const moment = (devices: number, prefill: number, decode: number) => ({
  text: "",
  devices,
  prefill,
  decode,
  unified: 0,
});

describe("the course of an operation", () => {
  it("has a row for devices and for each stage that serves at any moment of it", () => {
    const lanes = lanesOf(previewView({ moments: [moment(3, 1, 2), moment(3, 2, 0)], devices_max: 3, budget: 4 }));
    expect(lanes.map((lane) => [lane.key, lane.values, lane.top])).toEqual([
      ["devices", [3, 3], 4],
      ["prefill", [1, 2], 2],
      ["decode", [2, 0], 2],
    ]);
  });

  it("shows that no device is used, and never divides by nothing", () => {
    expect(lanesOf(previewView({ moments: [moment(0, 0, 0)] }))).toEqual([
      { key: "devices", label: "Devices", values: [0], top: 1 },
    ]);
  });
});
