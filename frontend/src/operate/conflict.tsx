import { Alert, Anchor, Button, Group, Text } from "@mantine/core";
import { IconHourglass } from "@tabler/icons-react";
import { Link } from "react-router";
import type { InTheWay } from "./ask";

interface ConflictProps {
  readonly conflict: InTheWay;
  /** Left out where this can't wait in the queue. */
  readonly onQueue?: () => void;
  readonly isPending?: boolean;
}

/** Another operation works on the same thing: look at it, or wait behind it. */
export function Conflict({ conflict, onQueue, isPending = false }: ConflictProps) {
  return (
    <Alert color="yellow" icon={<IconHourglass />} title="Another operation is in the way" data-testid="conflict">
      <Text size="sm">{conflict.message}</Text>
      <Group gap="sm" mt="sm">
        {onQueue && (
          <Button size="xs" variant="default" onClick={onQueue} loading={isPending} data-testid="queue-it">
            Queue it
          </Button>
        )}
        {conflict.operation !== null && (
          <Anchor component={Link} to={`/operations/${conflict.operation}`} size="sm" c="inherit">
            Show that operation
          </Anchor>
        )}
      </Group>
    </Alert>
  );
}
