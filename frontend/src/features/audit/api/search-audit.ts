import { useInfiniteQuery } from "@tanstack/react-query";
import type { AuditEntryView } from "@/generated/contracts";
import { call, withQuery, type Page } from "@/lib/api";

/** Empty: all. since, until: days ("2026-10-31") in the reader's zone, both included. */
export interface AuditFilters {
  readonly text: string;
  readonly actor: string;
  readonly action: string;
  readonly since: string;
  readonly until: string;
}

/** The filters as the API takes them. */
export function parametersOf({ since, until, ...rest }: AuditFilters): Readonly<Record<string, string>> {
  return {
    ...rest,
    since: since === "" ? "" : startOfDay(since, 0),
    until: until === "" ? "" : startOfDay(until, 1),
  };
}

function startOfDay(day: string, later: number): string {
  const start = new Date(`${day}T00:00:00`);
  start.setDate(start.getDate() + later);
  return start.toISOString();
}

export function useAudit(filters: AuditFilters) {
  return useInfiniteQuery({
    queryKey: ["audit", filters],
    queryFn: ({ pageParam }) =>
      call<Page<AuditEntryView>>(
        "GET",
        withQuery("/audit", { ...parametersOf(filters), limit: 50, cursor: pageParam }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
}

/** Where the same entries come as a file. */
export function exportUrl(filters: AuditFilters, format: "csv" | "jsonl"): string {
  return `/api/v1${withQuery("/audit/export", { format, ...parametersOf(filters) })}`;
}
