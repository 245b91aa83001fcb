import { Button, Group, Modal, MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { Failure } from "@/components/states";
import { UserRole } from "@/generated/contracts";
import { may, useWho } from "@/lib/who";
import { useDeployments } from "@/live/hooks";
import { useCreateToken } from "./api/tokens";
import { daysOf, LIFETIMES } from "./lifetimes";
import { ROLE_OPTIONS } from "./roles";
import { SecretShown } from "./secret-shown";

interface NewTokenDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
}

export function NewTokenDialog({ opened, onClose }: NewTokenDialogProps) {
  const create = useCreateToken();
  const who = useWho();
  const deployments = useDeployments();
  const form = useForm<{ name: string; role: UserRole; only: string[]; lifetime: string }>({
    initialValues: { name: "", role: UserRole.VIEWER, only: [], lifetime: "90" },
    validate: { name: (value) => (value.trim() === "" ? "Say which program will use it" : null) },
  });
  const close = (): void => {
    onClose();
    create.reset();
    form.reset();
  };
  // A role that was granted for a deployment is one's own there.
  const isMine = (role: UserRole): boolean =>
    may(who, role) || Object.keys(who.grants).some((at) => may(who, role, at));
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={create.data ? `Token ${create.data.name}` : "Create a token"}
      closeOnClickOutside={create.data === undefined}
      data-testid="new-token-dialog"
    >
      {create.data ? (
        <SecretShown secret={create.data.token} label="Copy the token" onClose={close} />
      ) : (
        <form
          onSubmit={form.onSubmit(({ name, role, only, lifetime }) => {
            const days = daysOf(lifetime);
            create.mutate({
              name: name.trim(),
              role,
              ...(only.length === 0 ? {} : { only }),
              ...(days === null ? {} : { expires_in_days: days }),
            });
          })}
          noValidate
        >
          <Stack gap="md">
            <TextInput label="Name" placeholder="nightly-scaler" data-autofocus {...form.getInputProps("name")} />
            <Select
              label="Role"
              data={ROLE_OPTIONS.filter(({ value }) => isMine(value))}
              {...form.getInputProps("role")}
            />
            <MultiSelect
              label="Deployments"
              placeholder={form.values.only.length === 0 ? "All that you may see and change" : ""}
              data={deployments.map((deployment) => deployment.name)}
              clearable
              {...form.getInputProps("only")}
            />
            <Select label="Expires after" data={LIFETIMES} {...form.getInputProps("lifetime")} />
            {create.isError && <Failure error={create.error} title="No token was made" />}
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
