// The last minutes of one deployment as evenly spaced seconds, with gaps where nothing is known.

import type { DeploymentFrame, PoolFrame, Role, TelemetryFrame } from "@/generated/contracts";

export interface TimeWindow {
  /** Unix seconds, oldest first. */
  readonly seconds: readonly number[];
  /** The deployment's frame of each second; null where there is none. */
  readonly frames: readonly (DeploymentFrame | null)[];
}

/** A frame takes about so long to arrive; until then its second isn't a gap. */
const ARRIVAL_S = 2;

/** The `length` seconds up to now. Goes on moving when frames stop, so that silence shows as a gap. */
export function windowOf(
  frames: readonly TelemetryFrame[],
  deployment: string,
  nowSecond: number,
  length: number,
): TimeWindow {
  const newest = frames.at(-1)?.second ?? 0;
  const end = Math.max(newest, nowSecond - ARRIVAL_S);
  const first = end - length + 1;
  const bySecond: (DeploymentFrame | null)[] = Array.from({ length }, () => null);
  for (const frame of frames) {
    const at = frame.second - first;
    if (at >= 0 && at < length) bySecond[at] = frame.deployments.find((one) => one.deployment === deployment) ?? null;
  }
  return { seconds: Array.from({ length }, (_, at) => first + at), frames: bySecond };
}

export type Pick = (frame: DeploymentFrame) => number | null;

export function column(window: TimeWindow, pick: Pick): readonly (number | null)[] {
  return window.frames.map((frame) => (frame === null ? null : pick(frame)));
}

/** The newest known value within the last `within` seconds; null when there is none. */
export function newest(window: TimeWindow, pick: Pick, within = 4): number | null {
  return column(window, pick)
    .slice(-within)
    .reduce((last, value) => value ?? last, null);
}

/** Sum over the window's known seconds; null when none is known. */
export function total(window: TimeWindow, pick: Pick): number | null {
  const known = column(window, pick).filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

/** Mean over the known ones of the last `over` seconds; null when none is known. */
export function recentMean(window: TimeWindow, pick: Pick, over = 10): number | null {
  const known = column(window, pick)
    .slice(-over)
    .filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}

/** `pick` of the deployment's pool of `role` (it has at most one); null when there is none or it doesn't know. */
export function ofRole(role: Role, pick: (pool: PoolFrame) => number | null): Pick {
  return (frame) => {
    const pool = frame.pools.find((one) => one.role === role);
    return pool === undefined ? null : pick(pool);
  };
}
