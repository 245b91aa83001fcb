import { ActionIcon, Button, Code, CopyButton, Group, Paper, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** A small copy button. */
export function CopyIcon({ value, label }: { readonly value: string; readonly label: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : label}>
          <ActionIcon onClick={copy} aria-label={label} size="sm">
            {copied ? <IconCheck size={14} color="var(--good)" /> : <IconCopy size={14} color="var(--neutral)" />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

interface CopyBlockProps {
  readonly value: string;
  readonly label: string;
  readonly testId?: string;
}

/** Text made to be taken elsewhere: a key, a command, a snippet. */
export function CopyBlock({ value, label, testId }: CopyBlockProps) {
  return (
    <Paper p="xs" bg="var(--page)">
      <Code
        block
        bg="transparent"
        p={4}
        mah={320}
        style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere", overflowY: "auto" }}
        data-testid={testId}
      >
        {value}
      </Code>
      <Group justify="flex-end" mt="xs">
        <CopyButton value={value}>
          {({ copied, copy }) => (
            <Button
              size="xs"
              variant="default"
              onClick={copy}
              leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
            >
              {copied ? "Copied" : label}
            </Button>
          )}
        </CopyButton>
      </Group>
    </Paper>
  );
}
