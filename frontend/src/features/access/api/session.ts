import { useQuery } from "@tanstack/react-query";
import { call, rememberCsrf } from "@/lib/api";
import type { Who } from "@/lib/who";

export interface Session {
  readonly user: Who | null;
  readonly csrf: string;
  /** Another way to sign in: the name for its button, and where it leads. Null where there is none. */
  readonly oidc: { readonly name: string; readonly url: string } | null;
}

export const SESSION_KEY = ["session"] as const;

/** Who is signed in. Also brings the token that every change must carry. */
export async function getSession(): Promise<Session> {
  const session = await call<Session>("GET", "/session");
  rememberCsrf(session.csrf);
  return session;
}

export function useSession() {
  return useQuery({ queryKey: SESSION_KEY, queryFn: getSession, staleTime: Infinity, retry: 2 });
}
