import { useQuery } from "@tanstack/react-query";
import type { LinkView } from "@/generated/contracts";
import { callAll } from "@/lib/api";

/** measuring: whether a measurement runs; then they are asked for again and again. */
export function useLinks(measuring: boolean) {
  return useQuery({
    queryKey: ["links", measuring],
    queryFn: () => callAll<LinkView>("/links"),
    refetchInterval: measuring ? 2000 : false,
    placeholderData: (before) => before,
  });
}
