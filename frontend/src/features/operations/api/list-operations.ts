import { useInfiniteQuery } from "@tanstack/react-query";
import type { OperationView } from "@/generated/contracts";
import { call, withQuery, type Page } from "@/lib/api";

export interface Narrowed {
  readonly state: string;
  readonly kind: string;
  readonly text: string;
}

/** Operations as they are stored, page after page. */
export function useStoredOperations({ state, kind, text }: Narrowed) {
  return useInfiniteQuery({
    queryKey: ["operations", "list", state, kind, text],
    queryFn: ({ pageParam }) =>
      call<Page<OperationView>>("GET", withQuery("/operations", { state, kind, text, limit: 50, cursor: pageParam })),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
}
