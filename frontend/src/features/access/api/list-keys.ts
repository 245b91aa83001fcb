import { useQuery } from "@tanstack/react-query";
import { callAll } from "@/lib/api";

/** A serving key as it is listed; the key itself is shown once, when it is made. */
export interface ServingKey {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
}

export const KEYS_KEY = ["keys"] as const;

export function useKeys() {
  return useQuery({ queryKey: KEYS_KEY, queryFn: () => callAll<ServingKey>("/keys") });
}
