// Names the stage that is short, from the last seconds' backlog; says so when it can't be told.

import type { Role } from "@/generated/contracts";
import { type DeploymentView } from "@/generated/contracts";
import { count, percent, rate } from "@/lib/format";
import { ofRole, recentMean, type TimeWindow } from "./window";

/** What one stage is doing, means over the last ten seconds; null is not known. */
export interface StageLoad {
  readonly replicas: number;
  readonly ready: number;
  readonly running: number | null;
  readonly waiting: number | null;
  readonly waitingTokens: number | null;
  /** Share of KV blocks in use, 0..1. */
  readonly kvShare: number | null;
}

export interface Verdict {
  readonly short: Role | "both" | "neither" | "unknown";
  readonly title: string;
  readonly text: string;
}

/** A stage is short of workers when on average one request or more waits per ready worker ... */
const WAITING_PER_WORKER = 1;
/** ... and decode also when its KV cache is this full. */
const KV_FULL = 0.9;

export function stageLoad(deployment: DeploymentView, window: TimeWindow, role: Role): StageLoad {
  const pools = deployment.pools.filter((pool) => pool.role === role);
  const used = recentMean(
    window,
    ofRole(role, (pool) => pool.kv_blocks_used),
  );
  const blocks = recentMean(
    window,
    ofRole(role, (pool) => pool.kv_blocks_total),
  );
  return {
    replicas: pools.reduce((sum, pool) => sum + pool.replicas, 0),
    ready: pools.reduce((sum, pool) => sum + pool.ready, 0),
    running: recentMean(
      window,
      ofRole(role, (pool) => pool.running),
    ),
    waiting: recentMean(
      window,
      ofRole(role, (pool) => pool.waiting),
    ),
    waitingTokens: recentMean(
      window,
      ofRole(role, (pool) => pool.waiting_tokens),
    ),
    kvShare: used === null || blocks === null || blocks === 0 ? null : used / blocks,
  };
}

const UNKNOWN_TEXT = "No worker has reported its backlog in the last ten seconds, so no bottleneck can be named.";

export function judge(deployment: DeploymentView, prefill: StageLoad, decode: StageLoad): Verdict {
  if (!deployment.serving) return verdict("unknown", "Not serving", deployment.status);
  if (prefill.waiting === null || decode.kvShare === null) {
    return verdict("unknown", "Not enough is known", UNKNOWN_TEXT);
  }
  const prefillShort = crowded(prefill);
  const decodeShort = crowded(decode) || full(decode);
  const backlog = `${rate(prefill.waiting)} prompts (${count(prefill.waitingTokens)} tokens) wait to be read`;
  const room = `${percent(decode.kvShare)} of decode's KV cache is in use`;
  if (prefillShort && decodeShort) return verdict("both", "Both stages are short", `${backlog}, and ${room}.`);
  if (prefillShort) return verdict("prefill", "Prefill is the bottleneck", `${backlog}, while only ${room}.`);
  if (decodeShort)
    return verdict("decode", "Decode is the bottleneck", `${room}, and prefill has no queue to speak of.`);
  return verdict("neither", "Neither stage is short", `No queue to speak of, and ${room}.`);
}

/** One pool that does both can be short, but has no other stage to be balanced with. */
export function judgeUnified(deployment: DeploymentView, load: StageLoad): Verdict {
  if (!deployment.serving) return verdict("unknown", "Not serving", deployment.status);
  if (load.waiting === null || load.kvShare === null) return verdict("unknown", "Not enough is known", UNKNOWN_TEXT);
  const state = `${rate(load.waiting)} requests wait, and ${percent(load.kvShare)} of the KV cache is in use.`;
  if (crowded(load) || full(load)) return verdict("unified", "The pool is short of workers", state);
  return verdict("neither", "The pool keeps up", state);
}

function full(stage: StageLoad): boolean {
  return stage.kvShare !== null && stage.kvShare >= KV_FULL;
}

function crowded(stage: StageLoad): boolean {
  return stage.waiting !== null && stage.ready > 0 && stage.waiting / stage.ready >= WAITING_PER_WORKER;
}

function verdict(short: Verdict["short"], title: string, text: string): Verdict {
  return { short, title, text };
}
