import { NumberInput, SegmentedControl, Select, SimpleGrid, Stack } from "@mantine/core";
import type { DeployForm } from "./deploy-form";

const DTYPES = [
  { value: "auto", label: "Automatic (float32 on CPU, bfloat16 on GPU)" },
  { value: "float32", label: "float32" },
  { value: "bfloat16", label: "bfloat16" },
  { value: "float16", label: "float16" },
];

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
  const limit = form.getInputProps("settings.max_model_len");
  return (
    <Stack gap="md">
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberInput
          label="Read locally up to"
          description="Prompt tokens that decode reads itself"
          min={0}
          {...form.getInputProps("local_prefill_tokens")}
        />
        <NumberInput
          label="Longest request"
          description="Prompt and answer, in tokens"
          placeholder="The model's own limit"
          min={1}
          {...limit}
          value={form.values.settings.max_model_len ?? ""}
          onChange={(value) => form.setFieldValue("settings.max_model_len", typeof value === "number" ? value : null)}
        />
        <NumberInput
          label="KV cache"
          description="Tokens per worker"
          min={16}
          step={1024}
          thousandSeparator=","
          {...form.getInputProps("settings.kv_tokens")}
        />
        <NumberInput
          label="Prefill chunk"
          description="Prompt tokens per step; 0 reads prompts whole"
          min={0}
          step={64}
          {...form.getInputProps("settings.prefill_chunk_tokens")}
        />
        <NumberInput
          label="Largest batch"
          description="Requests in one decode step"
          min={1}
          {...form.getInputProps("settings.max_running")}
        />
        <NumberInput
          label="KV block"
          description="Tokens per block"
          min={1}
          {...form.getInputProps("settings.block_size")}
        />
      </SimpleGrid>
      <Select label="Number format" data={DTYPES} {...form.getInputProps("settings.dtype")} />
    </Stack>
  );
}
