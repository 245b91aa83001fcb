// What a roll-out changes and how it goes on, as a form; and the request made of it.

import type { Change } from "@/components/changes";
import type { DeploymentView, EngineSettings } from "@/generated/contracts";
import type { RolloutPolicy } from "./api/get-rollout";
import { policyOf, policyValues, type PolicyValues } from "./policy-form";

export interface RollOutValues extends PolicyValues {
  readonly model: string;
  readonly model_revision: string;
  readonly settings: EngineSettings;
  readonly note: string;
}

export function valuesOf(deployment: DeploymentView, policy: RolloutPolicy): RollOutValues {
  const stable = deployment.revisions.find((revision) => revision.number === deployment.revision);
  return {
    model: deployment.model,
    model_revision: stable?.model_revision ?? "",
    settings: deployment.settings,
    note: "",
    ...policyValues(policy),
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

/** The body of the request: only what changes, and the policy. */
export function requestOf(values: RollOutValues, serving: RollOutValues): Readonly<Record<string, unknown>> {
  return {
    ...(values.model === serving.model ? {} : { model: values.model }),
    ...(values.model_revision === serving.model_revision ? {} : { model_revision: values.model_revision }),
    ...(settingChanges(serving.settings, values.settings).length === 0 ? {} : { settings: values.settings }),
    note: values.note.trim(),
    policy: policyOf(values),
  };
}

/** What is another setting in `after` than it was. */
export function settingChanges(before: EngineSettings, after: EngineSettings): readonly Change[] {
  const names = Object.keys(after) as (keyof EngineSettings)[];
  return names
    .filter((name) => String(before[name]) !== String(after[name]))
    .map((name) => ({ name, before: inWords(before[name]), after: inWords(after[name]) }));
}

function inWords(value: EngineSettings[keyof EngineSettings]): string {
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value === "object" && value !== null) return value.join(", ") || "none";
  return value === null ? "the model's own" : String(value);
}
