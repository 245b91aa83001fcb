import { UserRole } from "@/generated/contracts";

export const ROLE_NAME: Readonly<Record<UserRole, string>> = {
  [UserRole.VIEWER]: "Viewer",
  [UserRole.OPERATOR]: "Operator",
  [UserRole.ADMIN]: "Admin",
};

export const ROLE_MEANS: Readonly<Record<UserRole, string>> = {
  [UserRole.VIEWER]: "Viewer: may look",
  [UserRole.OPERATOR]: "Operator: changes what runs",
  [UserRole.ADMIN]: "Admin: also people and audit",
};

export const ROLE_OPTIONS = Object.values(UserRole).map((role) => ({ value: role, label: ROLE_MEANS[role] }));
