import { Group } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./dialog-buttons.module.css";

/** The end of a dialog: stays in sight while what is above it scrolls. */
export function DialogButtons({ children }: { readonly children: ReactNode }) {
  return (
    <Group justify="flex-end" gap="xs" className={classes.buttons ?? ""}>
      {children}
    </Group>
  );
}
