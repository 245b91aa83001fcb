import { Group, Menu, Text, UnstyledButton, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import {
  IconChevronUp,
  IconDeviceDesktop,
  IconLock,
  IconLogout,
  IconMoon,
  IconSun,
  IconUserCircle,
} from "@tabler/icons-react";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { OwnPasswordDialog } from "@/features/access/own-password-dialog";
import { ROLE_NAME } from "@/features/access/roles";
import { useSignOut } from "@/features/access/api/sign-out";
import { UserRole } from "@/generated/contracts";
import { messageOf } from "@/lib/api";
import { useWho } from "@/lib/who";
import classes from "./user-menu.module.css";

const SCHEMES: readonly (readonly [MantineColorScheme, string, typeof IconSun])[] = [
  ["light", "Light", IconSun],
  ["dark", "Dark", IconMoon],
  ["auto", "As the system", IconDeviceDesktop],
];

export function UserMenu() {
  const { username, role, local } = useWho();
  const [changing, setChanging] = useState(false);
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const signOut = useSignOut();
  return (
    <>
      <Menu position="top-start" width={200}>
        <Menu.Target>
          <UnstyledButton className={classes.button} aria-label={`Account of ${username}`}>
            <Group gap={8} wrap="nowrap">
              <IconUserCircle size={20} stroke={1.75} />
              <div style={{ flex: 1, minWidth: 0 }}>
                <Text size="sm" truncate>
                  {username}
                </Text>
                <Text size="xs" c="dimmed" truncate data-testid="own-role">
                  {role === UserRole.VIEWER ? "May only look" : ROLE_NAME[role]}
                </Text>
              </div>
              <IconChevronUp size={14} />
            </Group>
          </UnstyledButton>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>Appearance</Menu.Label>
          {SCHEMES.map(([scheme, label, Icon]) => (
            <Menu.Item
              key={scheme}
              leftSection={<Icon size={16} />}
              onClick={() => setColorScheme(scheme)}
              fw={colorScheme === scheme ? 650 : 400}
              aria-checked={colorScheme === scheme}
              role="menuitemradio"
            >
              {label}
            </Menu.Item>
          ))}
          <Menu.Divider />
          {local && (
            <Menu.Item leftSection={<IconLock size={16} />} onClick={() => setChanging(true)}>
              Change my password
            </Menu.Item>
          )}
          <Menu.Item
            leftSection={<IconLogout size={16} />}
            onClick={() =>
              signOut.mutate(undefined, {
                onError: (error) =>
                  notifications.show({ color: "red", title: "Not signed out", message: messageOf(error) }),
              })
            }
          >
            Sign out
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <OwnPasswordDialog opened={changing} onClose={() => setChanging(false)} />
    </>
  );
}
