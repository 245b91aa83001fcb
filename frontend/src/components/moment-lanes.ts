// The course of an operation as rows of bars: one bar per moment and measure.

import type { OperationPreview } from "@/generated/contracts";

export interface Lane {
  readonly key: "devices" | "prefill" | "decode" | "unified";
  readonly label: string;
  readonly values: readonly number[];
  /** What a full bar stands for. */
  readonly top: number;
}

/** Lanes of what there is: deployments have two stages or one that does both. */
export function lanesOf({ moments, devices_max, budget }: OperationPreview): readonly Lane[] {
  const rows: readonly (readonly [Lane["key"], string])[] = [
    ["devices", "Devices"],
    ["prefill", "Prefill"],
    ["decode", "Decode"],
    ["unified", "Unified"],
  ];
  return rows.flatMap(([key, label]) => {
    const values = moments.map((moment) => moment[key]);
    const most = Math.max(0, ...values);
    if (most === 0 && key !== "devices") return [];
    return [{ key, label, values, top: key === "devices" ? Math.max(1, devices_max, budget) : most }];
  });
}
