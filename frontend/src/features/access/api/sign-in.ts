import { useMutation, useQueryClient } from "@tanstack/react-query";
import { call, rememberCsrf } from "@/lib/api";
import { SESSION_KEY, type Session } from "./session";

export interface Credentials {
  readonly username: string;
  readonly password: string;
}

async function signIn(credentials: Credentials): Promise<Session> {
  const session = await call<Session>("POST", "/session", credentials);
  rememberCsrf(session.csrf);
  return session;
}

export function useSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: signIn,
    onSuccess: (session) => client.setQueryData(SESSION_KEY, session),
  });
}
