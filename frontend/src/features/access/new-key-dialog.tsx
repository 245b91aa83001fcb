import { Alert, Button, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconEyeOff } from "@tabler/icons-react";
import { CopyBlock } from "@/components/copy";
import { Failure } from "@/components/states";
import { useCreateKey } from "./api/create-key";

const LIFETIMES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "never", label: "Never" },
];

interface NewKeyDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
}

export function NewKeyDialog({ opened, onClose }: NewKeyDialogProps) {
  const create = useCreateKey();
  const form = useForm({
    initialValues: { name: "", lifetime: "90" },
    validate: { name: (value) => (value.trim() === "" ? "Say which program will use it" : null) },
  });
  const close = (): void => {
    onClose();
    create.reset();
    form.reset();
  };
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={create.data ? `Key for ${create.data.name}` : "Create a key"}
      closeOnClickOutside={create.data === undefined}
      data-testid="new-key-dialog"
    >
      {create.data ? (
        <Stack gap="md">
          <Alert color="yellow" icon={<IconEyeOff />}>
            Copy it now: it is not stored and can&apos;t be shown again.
          </Alert>
          <CopyBlock value={create.data.key} label="Copy the key" testId="new-key" />
          <Group justify="flex-end">
            <Button onClick={close}>Done</Button>
          </Group>
        </Stack>
      ) : (
        <form
          onSubmit={form.onSubmit(({ name, lifetime }) =>
            create.mutate({
              name: name.trim(),
              ...(lifetime === "never" ? {} : { expires_in_days: Number(lifetime) }),
            }),
          )}
          noValidate
        >
          <Stack gap="md">
            <TextInput label="Name" placeholder="support-bot" data-autofocus {...form.getInputProps("name")} />
            <Select label="Expires after" data={LIFETIMES} {...form.getInputProps("lifetime")} />
            <Text size="sm" c="dimmed">
              The key may call every deployed model.
            </Text>
            {create.isError && <Failure error={create.error} title="No key was made" />}
            <Group justify="flex-end" gap="xs">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button type="submit" loading={create.isPending}>
                Create
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
