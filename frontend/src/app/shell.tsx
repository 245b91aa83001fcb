import { AppShell, Burger, Group, NavLink, ScrollArea, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconBox, IconGauge, IconHistory, IconKey, IconMessage, IconServer, IconStack2 } from "@tabler/icons-react";
import { useEffect } from "react";
import { Link, Outlet, useLocation } from "react-router";
import { Brand } from "@/components/brand";
import { ConnectionBanner, ConnectionMark } from "./connection";
import classes from "./shell.module.css";
import { UserMenu } from "./user-menu";

const SECTIONS = [
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
] as const;

export function Shell({ username }: { readonly username: string }) {
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
          <UserMenu username={username} />
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
  return (
    <nav aria-label="Main">
      {SECTIONS.map((section) => (
        <Stack key={section.label} gap={2} mb="md">
          <Text size="xs" c="dimmed" px={10} mb={2}>
            {section.label}
          </Text>
          {section.pages.map(({ to, label, icon: Icon }) => {
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
