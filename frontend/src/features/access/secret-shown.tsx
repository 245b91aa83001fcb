import { Alert, Button, Group, Stack } from "@mantine/core";
import { IconEyeOff } from "@tabler/icons-react";
import { CopyBlock } from "@/components/copy";

interface SecretShownProps {
  readonly secret: string;
  readonly label: string;
  readonly onClose: () => void;
}

/** A key or token, this once. */
export function SecretShown({ secret, label, onClose }: SecretShownProps) {
  return (
    <Stack gap="md">
      <Alert color="yellow" icon={<IconEyeOff />}>
        Copy it now: it is not stored and can&apos;t be shown again.
      </Alert>
      <CopyBlock value={secret} label={label} testId="new-key" />
      <Group justify="flex-end">
        <Button onClick={onClose}>Done</Button>
      </Group>
    </Stack>
  );
}
