import { Accordion, Anchor, Select, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Link } from "react-router";
import { plural } from "@/lib/format";
import { useDeployments, useModels } from "@/live/hooks";
import { OperateDialog } from "@/operate/operate-dialog";
import { AdvancedFields, ShapeFields } from "./deploy-fields";
import { freeName, missing, requestOf, sizeOf, useDeployForm } from "./deploy-form";
import { RoutingFields } from "./routing-fields";
import { SettingsFields } from "./settings-fields";
import { freeSlots, type Slots } from "./slots";
import { SlotsNote } from "./slots-note";

interface DeployDialogProps {
  /** Name of the model to begin with; empty: none is chosen yet. */
  readonly model: string;
  readonly slots: readonly Slots[];
  readonly onClose: () => void;
}

/** Serves a model under a name, by workers of its own. Mounted while it is open. */
export function DeployDialog({ model, slots, onClose }: DeployDialogProps) {
  const models = useModels();
  const taken = useDeployments().map((deployment) => deployment.name);
  const form = useDeployForm(model, taken);
  const [settled] = useDebouncedValue(form.values, 300);
  const { workers, devices } = sizeOf(form.values);
  const free = freeSlots(slots);
  const todo = missing(form.values);

  const chooseModel = (chosen: string | null): void => {
    if (chosen === null) return;
    const { name, model: before } = form.values;
    const isOurs = name === "" || name === freeName(before, taken);
    form.setValues({ model: chosen, model_revision: "", ...(isOurs ? { name: freeName(chosen, taken) } : {}) });
  };

  return (
    <OperateDialog
      opened
      onClose={onClose}
      title="Deploy a model"
      ask={{ method: "POST", path: "/deployments", body: requestOf(settled) }}
      confirm="Deploy"
      refused="It can't be deployed like this"
      hasPreview
      canQueue={false}
      disabled={todo !== null || settled !== form.values}
      onRefused={(error) =>
        form.setErrors(error === null || error.field === null ? {} : { [error.field]: error.message })
      }
      testId="deploy-dialog"
    >
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
        data={models.map((one) => one.name)}
        allowDeselect={false}
        {...form.getInputProps("model")}
        onChange={chooseModel}
      />
      <TextInput
        label="Name"
        description="What clients write as model"
        maxLength={100}
        {...form.getInputProps("name")}
      />
      <ShapeFields form={form} />
      <div>
        <SlotsNote slots={slots} />
        {devices > free && (
          <Text size="sm" c="var(--warn)">
            {plural(workers, "worker")} on {plural(devices, "device")} wanted, {free} free.
          </Text>
        )}
      </div>
      <Accordion variant="separated" chevronPosition="left" multiple>
        <Accordion.Item value="advanced">
          <Accordion.Control>Advanced: targets and placement</Accordion.Control>
          <Accordion.Panel>
            <AdvancedFields form={form} />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="routing">
          <Accordion.Control>Advanced: routing</Accordion.Control>
          <Accordion.Panel>
            <RoutingFields
              input={(name, options) => form.getInputProps(`routing.${name}`, options)}
              tokens={form.values.shape === "split" ? form.getInputProps("local_prefill_tokens") : null}
              hasTpot={form.values.tpot_ms !== ""}
            />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="engine">
          <Accordion.Control>Advanced: engine settings</Accordion.Control>
          <Accordion.Panel>
            <SettingsFields input={(name) => form.getInputProps(`settings.${name}`)} />
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
      {todo !== null && (
        <Text size="sm" c="dimmed">
          {todo}
        </Text>
      )}
    </OperateDialog>
  );
}
