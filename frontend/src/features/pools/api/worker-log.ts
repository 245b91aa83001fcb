import { useQuery } from "@tanstack/react-query";
import type { LogRun } from "@/generated/contracts";
import { call, withQuery } from "@/lib/api";

interface Log {
  readonly lines: readonly string[];
}

/** The last lines of one run of a worker, asked of its node now. */
export function useWorkerLog(workerId: string, run: LogRun, lines = 500) {
  return useQuery({
    queryKey: ["worker-log", workerId, run],
    queryFn: () => call<Log>("GET", withQuery(`/workers/${encodeURIComponent(workerId)}/logs`, { run, lines })),
    gcTime: 0,
  });
}
