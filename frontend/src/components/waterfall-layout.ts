// Lays out a request's segments on its time to first token.

import type { RequestTiming } from "@/generated/contracts";
import type { Stage } from "@/lib/stages";

export interface LaidOutSegment {
  readonly key: string;
  readonly label: string;
  readonly stage: Stage;
  readonly level: 1 | 2 | 3;
  readonly seconds: number;
  /** Of the whole, 0..1. */
  readonly share: number;
}

export interface WaterfallLayout {
  /** TTFT in seconds: what the segments add up to. */
  readonly total: number;
  readonly segments: readonly LaidOutSegment[];
}

/** Differences below this are rounding, not a stage that nobody explained. */
const TOLERANCE_S = 5e-5;

/** Null when the request made no token. What the segments leave open becomes a segment of its own. */
export function layOut(timing: RequestTiming): WaterfallLayout | null {
  const total = timing.ttft_s;
  if (total === null) return null;
  const explained = timing.segments.reduce((sum, segment) => sum + segment.seconds, 0);
  const open = total - explained;
  const named = timing.segments.filter((segment) => segment.seconds > 0);
  const all = open > TOLERANCE_S ? [...named, { name: "unexplained", seconds: open }] : named;
  const whole = Math.max(total, explained);
  return {
    total,
    segments: all.map((segment, at) => ({
      key: `${at}-${segment.name}`,
      ...look(segment.name),
      seconds: segment.seconds,
      share: whole > 0 ? segment.seconds / whole : 0,
    })),
  };
}

interface Look {
  readonly label: string;
  readonly stage: Stage;
  readonly level: 1 | 2 | 3;
}

/** The router's segments, in its own names. */
const LOOKS: Readonly<Record<string, Look>> = {
  router: { label: "Router", stage: "neutral", level: 1 },
  queue: { label: "Wait for a worker with room", stage: "neutral", level: 2 },
  retry: { label: "Failed attempts", stage: "handoff", level: 1 },
  reserve: { label: "Reserve KV on decode", stage: "decode", level: 1 },
  prefill_queue: { label: "Wait for prefill", stage: "prefill", level: 3 },
  prefill: { label: "Prefill", stage: "prefill", level: 1 },
  held_text: { label: "Text held back", stage: "decode", level: 3 },
  network: { label: "Network and other", stage: "neutral", level: 2 },
  unexplained: { label: "Unexplained", stage: "neutral", level: 3 },
};

/** A segment of a newer router is shown under its own name. */
function look(name: string): Look {
  return LOOKS[name] ?? { label: name.replaceAll("_", " "), stage: "neutral", level: 2 };
}
