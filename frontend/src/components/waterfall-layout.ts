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
      label: label(segment.name),
      ...look(segment.name),
      seconds: segment.seconds,
      share: whole > 0 ? segment.seconds / whole : 0,
    })),
  };
}

function label(name: string): string {
  const words = name.replaceAll("_", " ").replace(/\bkv\b/, "KV");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function look(name: string): { readonly stage: Stage; readonly level: 1 | 2 | 3 } {
  const waiting = /queue|wait/.test(name) ? 3 : 1;
  if (/prefill/.test(name)) return { stage: "prefill", level: waiting };
  if (/decode/.test(name)) return { stage: "decode", level: waiting };
  if (/hand|transfer|kv/.test(name)) return { stage: "handoff", level: waiting };
  return { stage: "neutral", level: /network|unexplained/.test(name) ? 3 : 2 };
}
