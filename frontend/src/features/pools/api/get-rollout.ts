import { useQuery } from "@tanstack/react-query";
import type { RolloutView } from "@/generated/contracts";
import { call } from "@/lib/api";

/** How a roll-out goes on, and when it goes back by itself. step: share of the workers at a time; null: one pair. */
export interface RolloutPolicy {
  readonly step: number | null;
  readonly observe_s: number;
  readonly max_error_rate: number;
  readonly max_slo_miss_rate: number;
  readonly min_requests: number;
  readonly quiet_s: number;
  readonly step_deadline_s: number;
}

interface Rollout {
  readonly policy: RolloutPolicy;
  readonly rollout: RolloutView | null;
}

export async function getRolloutPolicy(name: string): Promise<RolloutPolicy> {
  return (await call<Rollout>("GET", `/deployments/${encodeURIComponent(name)}/rollout`)).policy;
}

/** The policy of a deployment, for those who begin a roll-out. */
export function useRolloutPolicy(name: string, enabled: boolean) {
  return useQuery({
    queryKey: ["rollout", name],
    queryFn: () => getRolloutPolicy(name),
    enabled,
    gcTime: 0,
  });
}
