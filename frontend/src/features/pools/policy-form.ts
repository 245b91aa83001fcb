// How roll-outs go on and when they go back by themselves, as people enter it.

import type { Change } from "@/components/changes";
import type { RolloutPolicy } from "./api/get-rollout";

/** An emptied number field holds text. Shares are in percent. */
export interface PolicyValues {
  /** Share of the workers changed at a time; "pair": one prefill and one decode worker. */
  readonly step: string;
  readonly observe_s: number | string;
  readonly min_requests: number | string;
  readonly quiet_s: number | string;
  readonly max_errors: number | string;
  readonly max_misses: number | string;
  readonly step_deadline_s: number | string;
}

export const STEPS = [
  { value: "pair", label: "One pair at a time" },
  { value: "0.1", label: "10 % at a time" },
  { value: "0.25", label: "25 % at a time" },
  { value: "0.5", label: "Half at a time" },
  { value: "1", label: "All at once" },
];

export function policyValues(policy: RolloutPolicy): PolicyValues {
  return {
    step: policy.step === null ? "pair" : String(policy.step),
    observe_s: policy.observe_s,
    min_requests: policy.min_requests,
    quiet_s: policy.quiet_s,
    max_errors: inPercent(policy.max_error_rate),
    max_misses: inPercent(policy.max_slo_miss_rate),
    step_deadline_s: policy.step_deadline_s,
  };
}

export function policyOf(values: PolicyValues): RolloutPolicy {
  return {
    step: values.step === "pair" ? null : Number(values.step),
    observe_s: Number(values.observe_s),
    min_requests: Number(values.min_requests),
    quiet_s: Number(values.quiet_s),
    max_error_rate: Number(values.max_errors) / 100,
    max_slo_miss_rate: Number(values.max_misses) / 100,
    step_deadline_s: Number(values.step_deadline_s),
  };
}

/** Steps on offer, with the present one where it is none of the usual. */
export function stepsWith(step: string): typeof STEPS {
  if (STEPS.some((one) => one.value === step)) return STEPS;
  return [...STEPS, { value: step, label: `${inPercent(Number(step))} % at a time` }];
}

export function policyIsComplete(values: PolicyValues): boolean {
  const { observe_s, min_requests, quiet_s, max_errors, max_misses, step_deadline_s } = values;
  const numbers = [observe_s, min_requests, quiet_s, max_errors, max_misses, step_deadline_s];
  return numbers.every((value) => typeof value === "number");
}

/** What differs between the two, in words. */
export function policyChanges(before: PolicyValues, after: PolicyValues): readonly Change[] {
  const words = LABELS.map(([name, of]) => ({ name, before: of(before), after: of(after) }));
  return words.filter((change) => change.before !== change.after);
}

const LABELS: readonly (readonly [string, (values: PolicyValues) => string])[] = [
  ["Roll-out step", ({ step }) => stepsWith(step).find((one) => one.value === step)?.label ?? step],
  ["A step must be well for", ({ observe_s }) => `${observe_s} s`],
  ["And have answered", ({ min_requests }) => `${min_requests} requests`],
  ["Without so many, goes on after", ({ quiet_s }) => `${quiet_s} s`],
  ["Back if more fail than", ({ max_errors }) => `${max_errors} %`],
  ["Back if more miss the SLO than", ({ max_misses }) => `${max_misses} %`],
  ["A step may take", ({ step_deadline_s }) => `${step_deadline_s} s`],
];

function inPercent(share: number): number {
  return Number((share * 100).toPrecision(6));
}
