import { useQuery } from "@tanstack/react-query";
import { callAll } from "@/lib/api";

/** A serving key as it is listed; the key itself is shown once, when it is made. */
export interface ServingKey {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  /** Names it may call; none means all. */
  readonly models: readonly string[];
  /** Per router process; null is no limit. */
  readonly requests_per_minute: number | null;
  readonly max_concurrent: number | null;
  /** To the minute. */
  readonly last_used_at: string | null;
  /** Until when the secret before the last rotation is good. */
  readonly previous_until: string | null;
}

export const KEYS_KEY = ["keys"] as const;

export function useKeys() {
  return useQuery({ queryKey: KEYS_KEY, queryFn: () => callAll<ServingKey>("/keys") });
}
