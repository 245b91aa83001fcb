import { Group, Stack, Text, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";

interface PageProps {
  readonly title: string;
  readonly description?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** A page's frame: its heading, what it is for, its actions, and the document title. */
export function Page({ title, description, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Tandem`;
  }, [title]);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" gap="sm">
        <div>
          <Title order={1}>{title}</Title>
          {description !== undefined && (
            <Text component="div" c="dimmed" size="sm" mt={4} maw={720}>
              {description}
            </Text>
          )}
        </div>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}
