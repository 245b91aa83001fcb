import { useQuery } from "@tanstack/react-query";
import type { DeploymentView } from "@/generated/contracts";
import { read } from "@/lib/api";
import { getRolloutPolicy } from "./get-rollout";

/** A deployment as it is now with its policy, and the version that a change to it names. */
export function useSeenDeployment(name: string) {
  return useQuery({
    queryKey: ["deployment", name],
    queryFn: async () => {
      const [{ value, version }, policy] = await Promise.all([
        read<DeploymentView>(`/deployments/${encodeURIComponent(name)}`),
        getRolloutPolicy(name),
      ]);
      return { deployment: value, policy, version };
    },
    staleTime: Infinity,
    gcTime: 0,
  });
}
