// How requests find their workers and what is tried when one fails, as people enter it.

import type { Change } from "@/components/changes";
import { HandoffFailure, type RoutingPolicy, type Waits } from "@/generated/contracts";

/** An emptied number field holds text: the router's own limit. */
export interface RoutingValues extends Readonly<Record<keyof Waits, number | string>> {
  readonly local_prefill_auto: boolean;
  readonly handoff_failure: string;
}

interface Wait {
  readonly name: keyof Waits;
  readonly label: string;
  readonly description: string;
}

export const WAITS: readonly Wait[] = [
  { name: "connect_s", label: "Connection", description: "To any worker" },
  { name: "reserve_s", label: "Reservation", description: "Of KV blocks for prompt and answer" },
  { name: "first_token_s", label: "First token", description: "From whoever reads the prompt" },
  { name: "idle_s", label: "Next token", description: "After each one" },
  { name: "total_s", label: "Whole request", description: "With all that is tried for it" },
];

export const HANDOFF_FAILURES: readonly { readonly value: HandoffFailure; readonly label: string }[] = [
  { value: HandoffFailure.RETRY_PREFILL, label: "Another prefill worker reads it" },
  { value: HandoffFailure.RECOMPUTE_ON_DECODE, label: "The decode worker reads it" },
  { value: HandoffFailure.FAIL, label: "The request fails" },
];

export function routingValues(policy: RoutingPolicy): RoutingValues {
  return {
    local_prefill_auto: policy.local_prefill_auto,
    handoff_failure: policy.handoff_failure,
    connect_s: policy.connect_s ?? "",
    reserve_s: policy.reserve_s ?? "",
    first_token_s: policy.first_token_s ?? "",
    idle_s: policy.idle_s ?? "",
    total_s: policy.total_s ?? "",
  };
}

export function routingOf(values: RoutingValues): RoutingPolicy {
  return {
    local_prefill_auto: values.local_prefill_auto,
    handoff_failure: HANDOFF_FAILURES.find(({ value }) => value === values.handoff_failure)?.value ?? "retry_prefill",
    connect_s: secondsOf(values.connect_s),
    reserve_s: secondsOf(values.reserve_s),
    first_token_s: secondsOf(values.first_token_s),
    idle_s: secondsOf(values.idle_s),
    total_s: secondsOf(values.total_s),
  };
}

/** What differs between the two, in words. */
export function routingChanges(before: RoutingValues, after: RoutingValues): readonly Change[] {
  const words = LABELS.map(([name, of]) => ({ name, before: of(before), after: of(after) }));
  return words.filter((change) => change.before !== change.after);
}

const LABELS: readonly (readonly [string, (values: RoutingValues) => string])[] = [
  ["Limit of short prompts", ({ local_prefill_auto }) => (local_prefill_auto ? "by measured pace" : "fixed")],
  [
    "When a hand-off fails",
    ({ handoff_failure }) => HANDOFF_FAILURES.find(({ value }) => value === handoff_failure)?.label ?? handoff_failure,
  ],
  ...WAITS.map(({ name, label }) => [`${label} within`, (values: RoutingValues) => limit(values[name])] as const),
];

function secondsOf(value: number | string): number | null {
  return typeof value === "number" ? value : null;
}

function limit(value: number | string): string {
  return typeof value === "number" ? `${value}\u00a0s` : "the router's limit";
}
