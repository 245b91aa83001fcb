import { AppShell, Burger, Group, NavLink, ScrollArea, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconBox,
  IconClipboardList,
  IconGauge,
  IconHistory,
  IconKey,
  IconMessage,
  IconServer,
  IconStack2,
  IconTerminal2,
  IconUsers,
} from "@tabler/icons-react";
import { useEffect } from "react";
import { Link, Outlet, useLocation } from "react-router";
import { Brand } from "@/components/brand";
import { UserRole } from "@/generated/contracts";
import { may, useWho } from "@/lib/who";
import { ConnectionBanner, ConnectionMark } from "./connection";
import classes from "./shell.module.css";
import { UserMenu } from "./user-menu";

interface Section {
  readonly label: string;
  readonly pages: readonly {
    readonly to: string;
    readonly label: string;
    readonly icon: typeof IconGauge;
    /** Who may see it; left out, everybody. */
    readonly needs?: UserRole;
  }[];
}

const SECTIONS: readonly Section[] = [
  {
    label: "Operate",
    pages: [
      { to: "/", label: "Overview", icon: IconGauge },
      { to: "/pools", label: "Pools", icon: IconStack2 },
      { to: "/fleet", label: "Fleet", icon: IconServer },
      { to: "/operations", label: "Operations", icon: IconHistory },
    ],
  },
  {
    label: "Serve",
    pages: [
      { to: "/playground", label: "Playground", icon: IconMessage },
      { to: "/models", label: "Models", icon: IconBox },
      { to: "/keys", label: "Keys", icon: IconKey },
    ],
  },
  {
    label: "Administer",
    pages: [
      { to: "/tokens", label: "Tokens", icon: IconTerminal2 },
      { to: "/users", label: "Users", icon: IconUsers, needs: UserRole.ADMIN },
      { to: "/audit", label: "Audit", icon: IconClipboardList, needs: UserRole.ADMIN },
    ],
  },
];

export function Shell() {
  const [open, { toggle, close }] = useDisclosure(false);
  const { pathname } = useLocation();
  useEffect(close, [pathname, close]);

  return (
    <AppShell
      layout="alt"
      header={{ height: { base: 54, sm: 0 } }}
      navbar={{ width: 224, breakpoint: "sm", collapsed: { mobile: !open } }}
      padding={{ base: "md", lg: "xl" }}
    >
      <a href="#page" className="skip-link">
        Skip to the page
      </a>
      <AppShell.Header hiddenFrom="sm">
        <Group h="100%" px="md" justify="space-between">
          <Group gap="sm">
            <Burger opened={open} onClick={toggle} size="sm" aria-label="Menu" aria-expanded={open} />
            <Brand />
          </Group>
          <ConnectionMark />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="md">
        <Group justify="space-between" mb="lg" h={30}>
          <Brand />
          <Burger hiddenFrom="sm" opened={open} onClick={close} size="sm" aria-label="Close the menu" />
        </Group>
        <AppShell.Section grow component={ScrollArea}>
          <Navigation pathname={pathname} />
        </AppShell.Section>
        <Stack gap="sm">
          <Group visibleFrom="sm" px={10}>
            <ConnectionMark />
          </Group>
          <UserMenu />
        </Stack>
      </AppShell.Navbar>
      <AppShell.Main id="page" tabIndex={-1} style={{ outline: "none" }}>
        <div style={{ maxWidth: 1320, margin: "0 auto" }}>
          <ConnectionBanner />
          <Outlet />
        </div>
      </AppShell.Main>
    </AppShell>
  );
}

function Navigation({ pathname }: { readonly pathname: string }) {
  const who = useWho();
  return (
    <nav aria-label="Main">
      {SECTIONS.map((section) => (
        <Stack key={section.label} gap={2} mb="md">
          <Text size="xs" c="dimmed" px={10} mb={2}>
            {section.label}
          </Text>
          {section.pages
            .filter(({ needs }) => needs === undefined || may(who, needs))
            .map(({ to, label, icon: Icon }) => {
              const active = to === "/" ? pathname === "/" : pathname.startsWith(to);
              return (
                <NavLink
                  key={to}
                  component={Link}
                  to={to}
                  label={label}
                  leftSection={<Icon size={18} stroke={1.75} />}
                  active={active}
                  aria-current={active ? "page" : undefined}
                  className={classes.link}
                  variant="subtle"
                />
              );
            })}
        </Stack>
      ))}
    </nav>
  );
}
