import { useQuery } from "@tanstack/react-query";
import type { ModelView } from "@/generated/contracts";
import { read } from "@/lib/api";

/** A model as it is now, and the version that a change to it names. */
export function useSeenModel(name: string) {
  return useQuery({
    queryKey: ["model", name],
    queryFn: () => read<ModelView>(`/models/${encodeURIComponent(name)}`),
    staleTime: Infinity,
    gcTime: 0,
  });
}
