// How requests are served and judged, and how revisions are rolled out, as a form; and the request made of it.

import type { Change } from "@/components/changes";
import type { DeploymentView } from "@/generated/contracts";
import { changedIn, type Edit } from "@/lib/edit";
import type { RolloutPolicy } from "./api/get-rollout";
import { policyChanges, policyIsComplete, policyOf, policyValues, type PolicyValues } from "./policy-form";
import { routingChanges, routingOf, routingValues, type RoutingValues } from "./routing-form";
import { inMilliseconds, inSeconds, promised, type SloValues } from "./slo";

export interface DeploymentSettings extends SloValues, PolicyValues {
  readonly routing: RoutingValues;
  /** An emptied number field holds text. */
  readonly local_prefill_tokens: number | string;
}

export function settingsOf(deployment: DeploymentView, policy: RolloutPolicy): DeploymentSettings {
  return {
    local_prefill_tokens: deployment.local_prefill_tokens,
    ttft_ms: inMilliseconds(deployment.slo_ttft_s),
    tpot_ms: inMilliseconds(deployment.slo_tpot_s),
    routing: routingValues(deployment.routing),
    ...policyValues(policy),
  };
}

export function isComplete(settings: DeploymentSettings): boolean {
  return typeof settings.local_prefill_tokens === "number" && policyIsComplete(settings);
}

/** The body of the request: only what changes; policies are sent whole. */
export function requestOf(edit: Edit<DeploymentSettings>): Readonly<Record<string, unknown>> {
  const { local_prefill_tokens: tokens, ttft_ms: ttft, tpot_ms: tpot, routing, ...policy } = changedIn(edit);
  return {
    ...(tokens === undefined ? {} : { local_prefill_tokens: tokens }),
    ...(ttft === undefined ? {} : { slo_ttft_s: inSeconds(ttft) }),
    ...(tpot === undefined ? {} : { slo_tpot_s: inSeconds(tpot) }),
    ...(routing === undefined ? {} : { routing: routingOf(routing) }),
    ...(Object.keys(policy).length === 0 ? {} : { policy: policyOf(edit.wanted) }),
  };
}

/** What differs between what was seen and what is wanted, in words. */
export function deploymentChanges({ seen, wanted }: Edit<DeploymentSettings>): readonly Change[] {
  const own = LABELS.map(([name, of]) => ({ name, before: of(seen), after: of(wanted) }));
  return [
    ...own.filter((change) => change.before !== change.after),
    ...routingChanges(seen.routing, wanted.routing),
    ...policyChanges(seen, wanted),
  ];
}

const LABELS: readonly (readonly [string, (settings: DeploymentSettings) => string])[] = [
  ["Read by decode itself", ({ local_prefill_tokens }) => `up to ${local_prefill_tokens} tokens`],
  ["TTFT target", ({ ttft_ms }) => promised(ttft_ms)],
  ["TPOT target", ({ tpot_ms }) => promised(tpot_ms)],
];
