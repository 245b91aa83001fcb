import { ActionIcon, Menu } from "@mantine/core";
import { IconDots, IconPencil, IconRotateClockwise, IconTrash } from "@tabler/icons-react";

interface CredentialMenuProps {
  readonly name: string;
  readonly onChange?: () => void;
  readonly onRotate: () => void;
  readonly onRevoke: () => void;
}

export function CredentialMenu({ name, onChange, onRotate, onRevoke }: CredentialMenuProps) {
  return (
    <Menu position="bottom-end" width={180}>
      <Menu.Target>
        <ActionIcon aria-label={`More about ${name}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {onChange && (
          <Menu.Item leftSection={<IconPencil size={16} />} onClick={onChange}>
            Change
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconRotateClockwise size={16} />} onClick={onRotate}>
          Rotate
        </Menu.Item>
        <Menu.Item color="red" leftSection={<IconTrash size={16} />} onClick={onRevoke}>
          Revoke
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
