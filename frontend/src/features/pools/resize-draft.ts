// An edit of a pool's replica count: what the operator saw, what they want, and whether the pool moved meanwhile.

import type { PoolView } from "@/generated/contracts";
import { ApiError } from "@/lib/api";

export interface Seen {
  readonly generation: number;
  readonly replicas: number;
}

export interface ResizeDraft {
  /** The pool as it was when the edit began, or when the operator last reviewed it. */
  readonly seen: Seen;
  readonly wanted: number;
}

export function beginDraft(pool: PoolView, wanted: number): ResizeDraft {
  return { seen: { generation: pool.generation, replicas: pool.replicas }, wanted };
}

/** What someone else made of the pool since the draft began; null while it is as it was seen. */
export function movedTo(draft: ResizeDraft, pool: PoolView, refusal: unknown): Seen | null {
  const live = pool.generation > draft.seen.generation ? pool : null;
  const refused = currentOf(refusal);
  const newest = [live, refused].reduce<Seen | null>(
    (best, one) => (one !== null && one.generation > (best ?? draft.seen).generation ? one : best),
    null,
  );
  return newest === null ? null : { generation: newest.generation, replicas: newest.replicas };
}

/** The draft on top of what the pool is now. */
export function rebase(draft: ResizeDraft, now: Seen): ResizeDraft {
  return { ...draft, seen: now };
}

function currentOf(refusal: unknown): Seen | null {
  if (!(refusal instanceof ApiError) || refusal.code !== "stale_generation" || refusal.current === null) return null;
  const { generation, replicas } = refusal.current;
  return typeof generation === "number" && typeof replicas === "number" ? { generation, replicas } : null;
}

/** What the change will do, in one sentence. */
export function consequence(role: string, before: number, after: number, free: number): string {
  const more = after - before;
  if (more > 0) {
    const start = `${more} ${role} ${more === 1 ? "worker starts" : "workers start"} and takes requests once ready.`;
    const many = start.replace("and takes", more === 1 ? "and takes" : "and take");
    return free >= more ? many : `${many} Only ${free} ${free === 1 ? "slot is" : "slots are"} free.`;
  }
  const fewer = -more;
  const drain = `${fewer} ${role} ${fewer === 1 ? "worker takes" : "workers take"} no new requests, finishes what it has, then stops.`;
  const drained =
    fewer === 1 ? drain : drain.replace("finishes what it has, then stops", "finish what they have, then stop");
  return after === 0 ? `${drained} With no ${role} worker left, this model answers no requests.` : drained;
}
