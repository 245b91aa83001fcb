import { useQuery } from "@tanstack/react-query";
import type { OperationView } from "@/generated/contracts";
import { call } from "@/lib/api";

/** One operation by id, for links to operations older than those kept live. */
export function useOperation(id: string | null) {
  return useQuery({
    queryKey: ["operations", id],
    queryFn: () => call<OperationView>("GET", `/operations/${encodeURIComponent(id ?? "")}`),
    enabled: id !== null,
  });
}
