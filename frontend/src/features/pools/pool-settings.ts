// The limits of a pool and where its workers may be placed, as a form.

import type { Change } from "@/components/changes";
import type { PoolView } from "@/generated/contracts";

export interface PoolSettings {
  /** An emptied number field holds text. */
  readonly min_replicas: number | string;
  readonly max_replicas: number | string;
  readonly labels: readonly string[];
  readonly strategy: string;
}

export const STRATEGIES = [
  { value: "spread", label: "Spread over many nodes" },
  { value: "pack", label: "Pack onto few nodes" },
];

export function settingsOf({ min_replicas, max_replicas, labels, strategy }: PoolView): PoolSettings {
  return { min_replicas, max_replicas, labels, strategy };
}

export function isComplete({ min_replicas: least, max_replicas: most }: PoolSettings): boolean {
  return typeof least === "number" && typeof most === "number";
}

/** What differs between the two, in words. */
export function poolChanges(before: PoolSettings, after: PoolSettings): readonly Change[] {
  const words = LABELS.map(([name, of]) => ({ name, before: of(before), after: of(after) }));
  return words.filter((change) => change.before !== change.after);
}

const LABELS: readonly (readonly [string, (settings: PoolSettings) => string])[] = [
  ["Fewest workers", (settings) => String(settings.min_replicas)],
  ["Most workers", (settings) => String(settings.max_replicas)],
  ["Only on", (settings) => (settings.labels.length === 0 ? "any device" : settings.labels.join(", "))],
  ["Placement", (settings) => STRATEGIES.find((one) => one.value === settings.strategy)?.label ?? settings.strategy],
];
