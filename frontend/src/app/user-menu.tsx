import { Group, Menu, Text, UnstyledButton, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import { IconChevronUp, IconDeviceDesktop, IconLogout, IconMoon, IconSun, IconUserCircle } from "@tabler/icons-react";
import { notifications } from "@mantine/notifications";
import { useSignOut } from "@/features/access/api/sign-out";
import { messageOf } from "@/lib/api";
import classes from "./user-menu.module.css";

const SCHEMES: readonly (readonly [MantineColorScheme, string, typeof IconSun])[] = [
  ["light", "Light", IconSun],
  ["dark", "Dark", IconMoon],
  ["auto", "As the system", IconDeviceDesktop],
];

export function UserMenu({ username }: { readonly username: string }) {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const signOut = useSignOut();
  return (
    <Menu position="top-start" width={200}>
      <Menu.Target>
        <UnstyledButton className={classes.button} aria-label={`Account of ${username}`}>
          <Group gap={8} wrap="nowrap">
            <IconUserCircle size={20} stroke={1.75} />
            <Text size="sm" truncate flex={1}>
              {username}
            </Text>
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
  );
}
