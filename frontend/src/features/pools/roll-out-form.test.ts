import { describe, expect, it } from "vitest";
import { DEFAULT_ENGINE_SETTINGS } from "@/generated/contracts";
import { deploymentView } from "@/testing/views";
import type { RolloutPolicy } from "./api/get-rollout";
import { changesAnything, requestOf, settingChanges, valuesOf } from "./roll-out-form";

const policy: RolloutPolicy = {
  step: null,
  observe_s: 30,
  max_error_rate: 0.05,
  max_slo_miss_rate: 0.2,
  min_requests: 20,
  quiet_s: 300,
  step_deadline_s: 3600,
};
const serving = valuesOf(deploymentView(), policy);

describe("a roll-out", () => {
  it("begins with what serves, and changes nothing by itself", () => {
    expect(serving).toMatchObject({ model: "small", step: "pair", max_errors: 5, max_misses: 20 });
    expect(changesAnything(serving, serving)).toBe(false);
    expect(changesAnything({ ...serving, note: "better", step: "0.5" }, serving)).toBe(false);
  });

  it("asks only for what changes, and for how it goes on", () => {
    const settings = { ...DEFAULT_ENGINE_SETTINGS, kv_tokens: 32768 };
    const values = { ...serving, settings, step: "0.25", max_errors: 1 };
    expect(changesAnything(values, serving)).toBe(true);
    expect(requestOf(values, serving)).toEqual({
      settings,
      note: "",
      policy: { ...policy, step: 0.25, max_error_rate: 0.01 },
    });
    expect(requestOf({ ...serving, model: "other" }, serving)).toEqual({ model: "other", note: "", policy });
  });

  it("tells settings apart in words", () => {
    expect(settingChanges(DEFAULT_ENGINE_SETTINGS, { ...DEFAULT_ENGINE_SETTINGS, max_model_len: 4096 })).toEqual([
      { name: "max_model_len", before: "the model's own", after: "4096" },
    ]);
    const overTcp = { ...DEFAULT_ENGINE_SETTINGS, kv_transports: ["tcp"] as const };
    expect(settingChanges(DEFAULT_ENGINE_SETTINGS, overTcp)).toEqual([
      { name: "kv_transports", before: "shared_memory, tcp", after: "tcp" },
    ]);
    expect(settingChanges(overTcp, { ...overTcp, kv_by_layer: true })).toEqual([
      { name: "kv_by_layer", before: "off", after: "on" },
    ]);
    expect(settingChanges(overTcp, { ...overTcp, kv_transports: ["tcp"] })).toEqual([]);
  });
});
