import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { UserRole } from "@/generated/contracts";
import { call, callAll } from "@/lib/api";

export interface Person {
  readonly username: string;
  readonly role: UserRole;
  /** Deployment name -> role there, where it is higher. */
  readonly grants: Readonly<Record<string, UserRole>>;
  readonly active: boolean;
  /** Has a password here. */
  readonly local: boolean;
  /** Comes through the identity provider. */
  readonly oidc: boolean;
  readonly created_at: string;
  readonly last_login_at: string | null;
}

/** Whose logins are refused now, after too many failures. */
export interface Lockout {
  readonly subject: "name" | "address";
  readonly value: string;
  readonly failures: number;
  readonly until: string;
}

const USERS_KEY = ["users"] as const;
const LOCKOUTS_KEY = ["lockouts"] as const;

export function useUsers() {
  return useQuery({ queryKey: USERS_KEY, queryFn: () => callAll<Person>("/users") });
}

export function useLockouts() {
  return useQuery({ queryKey: LOCKOUTS_KEY, queryFn: () => callAll<Lockout>("/lockouts"), refetchInterval: 15_000 });
}

/** A change to people: what it sends where. */
interface UserWrite {
  readonly method: "POST" | "PATCH" | "PUT" | "DELETE";
  /** User name; null makes a new one. */
  readonly username: string | null;
  readonly password?: boolean;
  readonly body?: unknown;
}

export function useWriteUser() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ method, username, password = false, body }: UserWrite) =>
      call<Person | undefined>(
        method,
        username === null ? "/users" : `/users/${encodeURIComponent(username)}${password ? "/password" : ""}`,
        body,
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: USERS_KEY }),
  });
}

export function useUnlock() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ subject, value }: Lockout) => call<unknown>("POST", "/lockouts/unlock", { subject, value }),
    onSuccess: () => client.invalidateQueries({ queryKey: LOCKOUTS_KEY }),
  });
}
