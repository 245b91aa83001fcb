import { Button, Modal, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { DialogButtons } from "@/components/dialog-buttons";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { useCreateModel } from "./api/create-model";
import { ModelFields } from "./model-fields";
import { faults, newModel, NOTHING_SAID, type ModelValues } from "./model-form";

interface AddModelDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
}

interface NewModelValues extends ModelValues {
  readonly name: string;
}

export function AddModelDialog({ opened, onClose }: AddModelDialogProps) {
  const create = useCreateModel();
  const form = useForm<NewModelValues>({
    initialValues: { name: "", ...NOTHING_SAID },
    validate: (values) => ({ ...faults(values), ...(values.name.trim() === "" ? { name: "Give it a name" } : {}) }),
  });
  const close = (): void => {
    onClose();
    create.reset();
    form.reset();
  };
  const submit = ({ name, ...said }: NewModelValues): void =>
    create.mutate(newModel(name, said), {
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
          <ModelFields input={(name) => form.getInputProps(name)} />
          {create.isError && <Failure error={create.error} title="The model was not added" />}
          <DialogButtons>
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Add
            </Button>
          </DialogButtons>
        </Stack>
      </form>
    </Modal>
  );
}
