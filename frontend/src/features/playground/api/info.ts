import { useQuery } from "@tanstack/react-query";
import { call } from "@/lib/api";

export interface PlaygroundInfo {
  /** Base address of the serving API as clients reach it. */
  readonly serving_url: string;
}

export function usePlaygroundInfo(enabled: boolean) {
  return useQuery({
    queryKey: ["playground-info"],
    queryFn: () => call<PlaygroundInfo>("GET", "/playground/info"),
    staleTime: Infinity,
    enabled,
  });
}
