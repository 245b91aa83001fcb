import { NumberInput, SegmentedControl, SimpleGrid, Stack } from "@mantine/core";
import type { DeployForm } from "./deploy-form";
import { SettingsFields } from "./settings-fields";

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

export function EngineFields({ form }: FieldsProps) {
  return (
    <Stack gap="md">
      <NumberInput
        label="Read locally up to"
        description="Prompt tokens that decode reads itself"
        min={0}
        {...form.getInputProps("local_prefill_tokens")}
      />
      <SettingsFields input={(name) => form.getInputProps(`settings.${name}`)} />
    </Stack>
  );
}
