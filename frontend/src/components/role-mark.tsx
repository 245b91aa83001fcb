import type { Role } from "@/generated/contracts";
import { ROLE_LABEL, ROLE_STAGE, stageColor } from "@/lib/stages";
import classes from "./role-mark.module.css";

/** A role's name with its colour; the shape differs too. */
export function RoleMark({ role }: { readonly role: Role }) {
  return (
    <span className={classes.mark} style={{ color: stageColor(ROLE_STAGE[role]) }}>
      <span className={classes.swatch} data-role={role} aria-hidden />
      {ROLE_LABEL[role]}
    </span>
  );
}
