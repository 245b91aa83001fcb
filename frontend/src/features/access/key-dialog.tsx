import { Button, Group, Modal, MultiSelect, NumberInput, Select, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { PriorityClass } from "@/generated/contracts";
import { useDeployments } from "@/live/hooks";
import { useWriteKey, type ServingKey } from "./api/keys";
import { daysOf, LIFETIMES } from "./lifetimes";
import { CLASS_OPTIONS } from "./priority-classes";
import { SecretShown } from "./secret-shown";

interface KeyDialogProps {
  /** The key to change; "new" makes one; null is closed. */
  readonly subject: ServingKey | "new" | null;
  readonly onClose: () => void;
}

export function KeyDialog({ subject, onClose }: KeyDialogProps) {
  const title = subject === "new" ? "Create a key" : `Change ${subject?.name ?? ""}`;
  return (
    <Modal
      opened={subject !== null}
      onClose={onClose}
      title={title}
      closeOnClickOutside={false}
      data-testid="new-key-dialog"
    >
      {subject !== null && <KeyForm served={subject === "new" ? null : subject} onClose={onClose} />}
    </Modal>
  );
}

interface Values {
  readonly name: string;
  readonly lifetime: string;
  readonly models: string[];
  readonly priorityClass: PriorityClass;
  readonly perMinute: number | string;
  readonly tokensPerMinute: number | string;
  readonly atOnce: number | string;
}

/** Where the control plane's objection to a field is shown. */
const FIELDS: Readonly<Record<string, keyof Values>> = {
  name: "name",
  models: "models",
  priority_class: "priorityClass",
  requests_per_minute: "perMinute",
  tokens_per_minute: "tokensPerMinute",
  max_concurrent: "atOnce",
};

interface KeyFormProps {
  readonly served: ServingKey | null;
  readonly onClose: () => void;
}

function KeyForm({ served, onClose }: KeyFormProps) {
  const write = useWriteKey();
  const deployments = useDeployments();
  const form = useForm<Values>({
    initialValues: {
      name: served?.name ?? "",
      lifetime: "90",
      models: [...(served?.models ?? [])],
      priorityClass: served?.priority_class ?? PriorityClass.STANDARD,
      perMinute: served?.requests_per_minute ?? "",
      tokensPerMinute: served?.tokens_per_minute ?? "",
      atOnce: served?.max_concurrent ?? "",
    },
    validate: { name: (value) => (value.trim() === "" ? "Say which program will use it" : null) },
  });
  if (write.data?.key !== undefined) {
    return <SecretShown secret={write.data.key} label="Copy the key" onClose={onClose} />;
  }
  const submit = (values: Values): void =>
    write.mutate(
      {
        id: served?.id ?? null,
        days: daysOf(values.lifetime),
        name: values.name.trim(),
        models: values.models,
        priority_class: values.priorityClass,
        requests_per_minute: limit(values.perMinute),
        tokens_per_minute: limit(values.tokensPerMinute),
        max_concurrent: limit(values.atOnce),
      },
      {
        onSuccess: () => served !== null && onClose(),
        onError: (error) => {
          const field = error instanceof ApiError ? FIELDS[error.field ?? ""] : undefined;
          if (field !== undefined) form.setFieldError(field, error.message);
        },
      },
    );
  const names = new Set([...deployments.map((one) => one.name), ...(served?.models ?? [])]);
  return (
    <form onSubmit={form.onSubmit(submit)} noValidate>
      <Stack gap="md">
        <TextInput label="Name" placeholder="support-bot" data-autofocus {...form.getInputProps("name")} />
        {served === null && <Select label="Expires after" data={LIFETIMES} {...form.getInputProps("lifetime")} />}
        <MultiSelect
          label="May call"
          placeholder={form.values.models.length === 0 ? "Every deployed model" : ""}
          data={[...names]}
          clearable
          {...form.getInputProps("models")}
        />
        <Select
          label="Priority"
          description="Whose requests go first while there is not room for all"
          data={CLASS_OPTIONS}
          allowDeselect={false}
          {...form.getInputProps("priorityClass")}
        />
        <SimpleGrid cols={{ base: 1, xs: 3 }}>
          <NumberInput label="Requests a minute" {...LIMIT} {...form.getInputProps("perMinute")} />
          <NumberInput label="Tokens a minute" {...LIMIT} {...form.getInputProps("tokensPerMinute")} />
          <NumberInput label="At the same time" {...LIMIT} {...form.getInputProps("atOnce")} />
        </SimpleGrid>
        {write.isError && Object.keys(form.errors).length === 0 && (
          <Failure error={write.error} title={served === null ? "No key was made" : "The key was not changed"} />
        )}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={write.isPending}>
            {served === null ? "Create" : "Change"}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

const LIMIT = { placeholder: "No limit", min: 1, allowDecimal: false, thousandSeparator: "," };

/** An empty field is no limit. */
function limit(value: number | string): number | null {
  return typeof value === "number" ? value : null;
}
