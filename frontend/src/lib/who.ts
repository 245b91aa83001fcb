// Who is signed in, and what they may do. The control plane decides; the console only leaves out what would be refused.

import { createContext, useContext } from "react";
import { UserRole } from "@/generated/contracts";

export interface Who {
  readonly username: string;
  readonly kind: "user" | "token" | "system" | "anonymous";
  /** Everywhere. */
  readonly role: UserRole;
  /** Deployment name -> role there, where it is higher. */
  readonly grants: Readonly<Record<string, UserRole>>;
  /** The only deployments that may be seen and changed; null means all. */
  readonly only: readonly string[] | null;
  /** Has a password here that can be changed. */
  readonly local: boolean;
}

const RANK: readonly UserRole[] = [UserRole.VIEWER, UserRole.OPERATOR, UserRole.ADMIN];

/** Whether `who` has at least the role `needed`: everywhere, or for one deployment. */
export function may(who: Who, needed: UserRole, deployment: string | null = null): boolean {
  if (who.only !== null) {
    if (deployment === null) return needed === UserRole.VIEWER;
    if (!who.only.includes(deployment)) return false;
  }
  const granted = deployment === null ? who.role : (who.grants[deployment] ?? who.role);
  return Math.max(RANK.indexOf(who.role), RANK.indexOf(granted)) >= RANK.indexOf(needed);
}

const NOBODY: Who = {
  username: "",
  kind: "anonymous",
  role: UserRole.VIEWER,
  grants: {},
  only: null,
  local: false,
};

export const WhoContext = createContext<Who>(NOBODY);

export const useWho = (): Who => useContext(WhoContext);

/** Whether what is on the page may be changed: everywhere, or on one deployment. */
export function useMay(needed: UserRole = UserRole.OPERATOR, deployment: string | null = null): boolean {
  return may(useWho(), needed, deployment);
}
