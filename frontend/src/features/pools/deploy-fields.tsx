import { NumberInput, SegmentedControl, Select, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { ModelSource } from "@/generated/contracts";
import { useModels } from "@/live/hooks";
import type { DeployForm } from "./deploy-form";
import { LabelsInput } from "./labels-input";
import { STRATEGIES } from "./pool-settings";
import { SloFields } from "./slo-fields";

interface FieldsProps {
  readonly form: DeployForm;
}

export function ShapeFields({ form }: FieldsProps) {
  const { shape } = form.values;
  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label="Shape"
        data={[
          { value: "split", label: "Prefill and decode apart" },
          { value: "unified", label: "Unified" },
        ]}
        value={shape}
        onChange={(value) => form.setFieldValue("shape", value)}
        fullWidth
      />
      {shape === "split" ? (
        <SimpleGrid cols={2}>
          <NumberInput label="Prefill workers" min={1} max={64} {...form.getInputProps("prefill")} />
          <NumberInput label="Decode workers" min={1} max={64} {...form.getInputProps("decode")} />
        </SimpleGrid>
      ) : (
        <NumberInput
          label="Unified workers"
          description="Each reads prompts and writes answers: nothing is handed over, but prompts disturb answers"
          min={1}
          max={64}
          {...form.getInputProps("unified")}
        />
      )}
    </Stack>
  );
}

/** What is promised, where workers may be, which revision of the model: all of it may stay as it is. */
export function AdvancedFields({ form }: FieldsProps) {
  const models = useModels();
  const chosen = models.find((model) => model.name === form.values.model);
  return (
    <Stack gap="md">
      <SloFields input={(name) => form.getInputProps(name)} />
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Select
          label="Placement"
          description="Of each pool's workers"
          data={STRATEGIES}
          allowDeselect={false}
          {...form.getInputProps("strategy")}
        />
        <NumberInput
          label="Devices of each worker"
          description="Tensor parallel, all on one node"
          min={1}
          max={64}
          {...form.getInputProps("tensor_parallel")}
        />
      </SimpleGrid>
      {form.values.shape === "split" ? (
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <LabelsInput
            label="Prefill only on devices with"
            description="All of these labels, of the device or its node"
            {...form.getInputProps("prefill_labels")}
          />
          <LabelsInput
            label="Decode only on devices with"
            description="All of these labels, of the device or its node"
            {...form.getInputProps("decode_labels")}
          />
        </SimpleGrid>
      ) : (
        <LabelsInput
          label="Only on devices with"
          description="All of these labels, of the device or its node"
          {...form.getInputProps("labels")}
        />
      )}
      {chosen?.source === ModelSource.HUB && (
        <TextInput
          label="Model revision"
          description="A branch, tag or commit of the hub, instead of what the catalogue says"
          placeholder={chosen.revision || "The hub's default"}
          {...form.getInputProps("model_revision")}
        />
      )}
    </Stack>
  );
}
