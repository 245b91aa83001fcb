import { Alert, Button, Text } from "@mantine/core";
import { IconUsers } from "@tabler/icons-react";
import type { ReactNode } from "react";

interface MovedProps {
  readonly title: string;
  /** What was seen, and what is there now. */
  readonly children: ReactNode;
  /** Label of the button that goes on from there. */
  readonly action: string;
  readonly onReview: () => void;
  readonly testId?: string;
}

/** Somebody else changed the same thing since it was seen: nobody's change is overwritten unseen. */
export function Moved({ title, children, action, onReview, testId = "moved" }: MovedProps) {
  return (
    <Alert color="yellow" icon={<IconUsers />} title={title} data-testid={testId}>
      <Text size="sm">{children}</Text>
      <Button mt="sm" size="xs" variant="default" onClick={onReview}>
        {action}
      </Button>
    </Alert>
  );
}
