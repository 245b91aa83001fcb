import { useQuery } from "@tanstack/react-query";
import { call, rememberCsrf } from "@/lib/api";

export interface Session {
  readonly user: { readonly username: string } | null;
  readonly csrf: string;
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
