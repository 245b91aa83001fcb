import { useMutation, useQueryClient } from "@tanstack/react-query";
import { call, rememberCsrf } from "@/lib/api";
import { SESSION_KEY, type Session } from "./session";

export interface PasswordChange {
  readonly current: string;
  readonly new: string;
}

/** This session goes on; all others of the same person end. */
export function useChangeOwnPassword() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (change: PasswordChange) => call<Session>("PUT", "/session/password", change),
    onSuccess: (session) => {
      rememberCsrf(session.csrf);
      client.setQueryData(SESSION_KEY, session);
    },
  });
}
