// What a roll-out changes and how it goes on, as a form; and the request made of it.

import type { DeploymentView, EngineSettings } from "@/generated/contracts";
import type { RolloutPolicy } from "./api/get-rollout";

export interface RollOutValues {
  readonly model: string;
  readonly model_revision: string;
  readonly settings: EngineSettings;
  readonly note: string;
  /** Share of the workers changed at a time; "pair": one prefill and one decode worker. */
  readonly step: string;
  readonly observe_s: number | string;
  /** In percent. */
  readonly max_errors: number | string;
  readonly max_misses: number | string;
  readonly min_requests: number | string;
}

export const STEPS = [
  { value: "pair", label: "One pair at a time" },
  { value: "0.1", label: "10 % at a time" },
  { value: "0.25", label: "25 % at a time" },
  { value: "0.5", label: "Half at a time" },
  { value: "1", label: "All at once" },
];

export function valuesOf(deployment: DeploymentView, policy: RolloutPolicy): RollOutValues {
  const stable = deployment.revisions.find((revision) => revision.number === deployment.revision);
  return {
    model: deployment.model,
    model_revision: stable?.model_revision ?? "",
    settings: deployment.settings,
    note: "",
    step: policy.step === null ? "pair" : String(policy.step),
    observe_s: policy.observe_s,
    max_errors: inPercent(policy.max_error_rate),
    max_misses: inPercent(policy.max_slo_miss_rate),
    min_requests: policy.min_requests,
  };
}

/** Whether anything of what serves is to change. */
export function changesAnything(values: RollOutValues, serving: RollOutValues): boolean {
  return (
    values.model !== serving.model ||
    values.model_revision !== serving.model_revision ||
    settingChanges(serving.settings, values.settings).length > 0
  );
}

/** The body of the request: only what changes, and the policy. policy: the one that was there. */
export function requestOf(
  values: RollOutValues,
  serving: RollOutValues,
  policy: RolloutPolicy,
): Readonly<Record<string, unknown>> {
  return {
    ...(values.model === serving.model ? {} : { model: values.model }),
    ...(values.model_revision === serving.model_revision ? {} : { model_revision: values.model_revision }),
    ...(settingChanges(serving.settings, values.settings).length === 0 ? {} : { settings: values.settings }),
    note: values.note.trim(),
    policy: {
      ...policy,
      step: values.step === "pair" ? null : Number(values.step),
      observe_s: Number(values.observe_s),
      max_error_rate: Number(values.max_errors) / 100,
      max_slo_miss_rate: Number(values.max_misses) / 100,
      min_requests: Number(values.min_requests),
    },
  };
}

export interface SettingChange {
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/** What is another setting in `after` than it was. */
export function settingChanges(before: EngineSettings, after: EngineSettings): readonly SettingChange[] {
  const names = Object.keys(after) as (keyof EngineSettings)[];
  return names
    .filter((name) => before[name] !== after[name])
    .map((name) => ({ name, before: inWords(before[name]), after: inWords(after[name]) }));
}

function inWords(value: string | number | null): string {
  return value === null ? "the model's own" : String(value);
}

function inPercent(share: number): number {
  return Number((share * 100).toPrecision(6));
}
