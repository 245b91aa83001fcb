import { Button, Group, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { useChangeOwnPassword } from "./api/change-own-password";

interface OwnPasswordDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
}

export function OwnPasswordDialog({ opened, onClose }: OwnPasswordDialogProps) {
  const change = useChangeOwnPassword();
  const form = useForm({
    initialValues: { current: "", new: "", again: "" },
    validate: {
      current: (value) => (value === "" ? "Enter the one you have now" : null),
      new: (value) => (value === "" ? "Enter a new one" : null),
      again: (value, values) => (value === values.new ? null : "This is not the same"),
    },
  });
  const close = (): void => {
    onClose();
    change.reset();
    form.reset();
  };
  const submit = ({ current, new: wanted }: { current: string; new: string }): void =>
    change.mutate(
      { current, new: wanted },
      {
        onSuccess: () => {
          notifications.show({ message: "Your password is changed. Your other sessions have ended." });
          close();
        },
        onError: (error) => {
          if (error instanceof ApiError && error.field !== null) form.setFieldError(error.field, error.message);
        },
      },
    );
  return (
    <Modal opened={opened} onClose={close} title="Change my password" data-testid="own-password-dialog">
      <form onSubmit={form.onSubmit(submit)} noValidate>
        <Stack gap="md">
          <PasswordInput
            label="Present password"
            autoComplete="current-password"
            data-autofocus
            {...form.getInputProps("current")}
          />
          <PasswordInput label="New password" autoComplete="new-password" {...form.getInputProps("new")} />
          <PasswordInput label="New password again" autoComplete="new-password" {...form.getInputProps("again")} />
          <Text size="sm" c="dimmed">
            Your sessions on other machines end. Tokens and keys stay.
          </Text>
          {change.isError && Object.keys(form.errors).length === 0 && (
            <Failure error={change.error} title="Your password was not changed" />
          )}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={change.isPending}>
              Change it
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
