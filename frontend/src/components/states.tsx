import { Alert, Button, Paper, Skeleton, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconAlertCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { messageOf } from "@/lib/api";

interface EmptyProps {
  readonly icon: ReactNode;
  readonly title: string;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}

/** Nothing is there yet: says what would be, and how to get it. */
export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <Paper p="xl">
      <Stack align="center" gap="sm" py="lg">
        <ThemeIcon size={48} radius="xl" variant="light" color="gray">
          {icon}
        </ThemeIcon>
        <Title order={2}>{title}</Title>
        <Text c="dimmed" size="sm" ta="center" maw={460}>
          {children}
        </Text>
        {action}
      </Stack>
    </Paper>
  );
}

interface FailureProps {
  readonly error: unknown;
  readonly title?: string;
  readonly onRetry?: () => void;
}

/** A call failed: one sentence on why, and a way on. */
export function Failure({ error, title = "That did not work", onRetry }: FailureProps) {
  return (
    <Alert color="red" variant="light" icon={<IconAlertCircle />} title={title} role="alert">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{messageOf(error)}</Text>
        {onRetry && (
          <Button size="xs" variant="default" onClick={onRetry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** Placeholders of about the height of what is coming. */
export function Loading({ rows = 3, height = 88 }: { readonly rows?: number; readonly height?: number }) {
  return (
    <Stack gap="md" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={height} />
      ))}
    </Stack>
  );
}
