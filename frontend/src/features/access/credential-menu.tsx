import { ActionIcon, Menu } from "@mantine/core";
import { IconDots, IconPencil, IconRotateClockwise, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";

/** What can be done with one that is good. */
export type CredentialAction = "change" | "rotate" | "revoke";

interface CredentialMenuProps {
  readonly name: string;
  readonly actions: readonly CredentialAction[];
  readonly onAct: (action: CredentialAction) => void;
}

const LOOK: Readonly<Record<CredentialAction, readonly [string, ReactNode]>> = {
  change: ["Change", <IconPencil key="change" size={16} />],
  rotate: ["Rotate", <IconRotateClockwise key="rotate" size={16} />],
  revoke: ["Revoke", <IconTrash key="revoke" size={16} />],
};

export function CredentialMenu({ name, actions, onAct }: CredentialMenuProps) {
  return (
    <Menu position="bottom-end" width={180}>
      <Menu.Target>
        <ActionIcon aria-label={`More about ${name}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {actions.map((action) => (
          <Menu.Item
            key={action}
            leftSection={LOOK[action][1]}
            onClick={() => onAct(action)}
            {...(action === "revoke" ? { color: "red" } : {})}
          >
            {LOOK[action][0]}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
