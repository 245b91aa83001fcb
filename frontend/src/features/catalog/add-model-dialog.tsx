import { Button, Group, Modal, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { useCreateModel, type NewModel } from "./api/create-model";

interface AddModelDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
}

export function AddModelDialog({ opened, onClose }: AddModelDialogProps) {
  const create = useCreateModel();
  const form = useForm<NewModel>({
    initialValues: { name: "", path: "", description: "", revision: "", licence: "" },
    validate: {
      name: (value) => (value.trim() === "" ? "Give it a name" : null),
      path: (value) => (value.trim() === "" ? "Name a directory, a hub id or an address" : null),
    },
  });
  const close = (): void => {
    onClose();
    create.reset();
    form.reset();
  };
  const submit = (values: NewModel): void =>
    create.mutate(values, {
      onSuccess: (model) => {
        notifications.show({ message: `${model.name} is in the catalogue.` });
        close();
      },
      onError: (error) => {
        if (error instanceof ApiError && error.field !== null) form.setFieldError(error.field, error.message);
      },
    });
  return (
    <Modal opened={opened} onClose={close} title="Add a model" data-testid="add-model-dialog">
      <form onSubmit={form.onSubmit(submit)} noValidate>
        <Stack gap="md">
          <TextInput label="Name" placeholder="qwen3-8b" data-autofocus {...form.getInputProps("name")} />
          <TextInput
            label="Weights"
            description="A directory that exists on every node, the id of a causal language model on the Hugging Face hub, or the web address of an archive or directory"
            placeholder="/models/qwen3-8b"
            {...form.getInputProps("path")}
          />
          <SimpleGrid cols={2}>
            <TextInput
              label="Revision"
              description="Of a hub id; optional"
              placeholder="main"
              {...form.getInputProps("revision")}
            />
            <TextInput
              label="Licence"
              description="Optional"
              placeholder="apache-2.0"
              {...form.getInputProps("licence")}
            />
          </SimpleGrid>
          <TextInput label="Description" description="Optional" {...form.getInputProps("description")} />
          {create.isError && Object.keys(form.errors).length === 0 && (
            <Failure error={create.error} title="The model was not added" />
          )}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Add
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
