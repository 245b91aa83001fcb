import { useMutation, useQuery } from "@tanstack/react-query";
import { call } from "@/lib/api";
import { useNoteOperation } from "@/live/hooks";
import { bodyOf, operationIn, pathOf, type Ask, type How } from "./ask";

interface Wanted extends How {
  readonly ask: Ask;
}

/** Begin what is asked for; its operation is shown at once, without waiting for the event. */
export function useOperate() {
  const note = useNoteOperation();
  return useMutation({
    mutationFn: ({ ask, ...how }: Wanted) =>
      call<unknown>(ask.method, pathOf(ask, how), bodyOf(ask, how), versionOf(ask)),
    onSuccess: (answer) => {
      const operation = operationIn(answer);
      if (operation !== null) note(operation);
    },
  });
}

/** What would be answered, worked out from everything as it is now. null asks nothing. */
export function useTrial(ask: Ask | null) {
  return useQuery({
    queryKey: ["trial", ask],
    queryFn: async () => {
      if (ask === null) return null;
      const answer = await call<unknown>(ask.method, pathOf(ask, { dryRun: true }), bodyOf(ask, {}), versionOf(ask));
      return answer ?? null;
    },
    enabled: ask !== null,
    staleTime: 5000,
    gcTime: 0,
  });
}

function versionOf({ ifMatch }: Ask): { readonly ifMatch?: string } {
  return ifMatch === undefined ? {} : { ifMatch };
}
