import { Accordion, Anchor, Button, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { Link } from "react-router";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { plural } from "@/lib/format";
import { useModels } from "@/live/hooks";
import { useCreateDeployment } from "./api/create-deployment";
import { EngineFields, ShapeFields } from "./deploy-fields";
import { counts, useDeployForm, type DeployValues } from "./deploy-form";
import { freeSlots, type Slots } from "./slots";
import { SlotsNote } from "./slots-note";

interface DeployDialogProps {
  readonly opened: boolean;
  readonly slots: readonly Slots[];
  readonly onClose: () => void;
}

export function DeployDialog({ opened, slots, onClose }: DeployDialogProps) {
  const models = useModels();
  const deploy = useCreateDeployment();
  const form = useDeployForm();
  const { prefill, decode, unified } = counts(form.values);
  const wanted = prefill + decode + unified;
  const free = freeSlots(slots);

  const submit = ({ shape, ...values }: DeployValues): void =>
    deploy.mutate(
      { ...values, ...counts({ shape, ...values }) },
      {
        onSuccess: () => {
          form.reset();
          onClose();
        },
        onError: (error) => {
          if (error instanceof ApiError && error.field !== null) form.setFieldError(error.field, error.message);
        },
      },
    );

  const chooseModel = (model: string | null): void => {
    if (model === null) return;
    form.setFieldValue("model", model);
    if (form.values.name === "") form.setFieldValue("name", model);
  };

  return (
    <Modal opened={opened} onClose={onClose} title="Deploy a model" size="lg" data-testid="deploy-dialog">
      <form onSubmit={form.onSubmit(submit)} noValidate>
        <Stack gap="md">
          <Select
            label="Model"
            data-autofocus
            placeholder={models.length === 0 ? "The catalogue is empty" : "From the catalogue"}
            description={
              models.length === 0 ? (
                <Anchor component={Link} to="/models?add" size="xs">
                  Add a model to the catalogue first
                </Anchor>
              ) : undefined
            }
            data={models.map((model) => model.name)}
            {...form.getInputProps("model")}
            onChange={chooseModel}
          />
          <TextInput label="Name" description="What clients write as model" {...form.getInputProps("name")} />
          <ShapeFields form={form} />
          <div>
            <SlotsNote slots={slots} />
            {wanted > free && (
              <Text size="sm" c="var(--warn)">
                {plural(wanted, "worker")} wanted, {free} free.
              </Text>
            )}
          </div>
          <Accordion variant="separated" chevronPosition="left">
            <Accordion.Item value="engine">
              <Accordion.Control>Engine settings</Accordion.Control>
              <Accordion.Panel>
                <EngineFields form={form} />
              </Accordion.Panel>
            </Accordion.Item>
          </Accordion>
          {deploy.isError && <Failure error={deploy.error} title="Nothing was deployed" />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={deploy.isPending}>
              Deploy
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
