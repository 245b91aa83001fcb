import { useMutation } from "@tanstack/react-query";
import { call } from "@/lib/api";

/** Ends the session and starts the page over, so that nothing of it stays in memory. */
export function useSignOut() {
  return useMutation({
    mutationFn: () => call<undefined>("DELETE", "/session"),
    onSuccess: () => location.assign("/login"),
  });
}
