import { NumberInput, Select, SimpleGrid, Stack } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import type { EngineSettings } from "@/generated/contracts";

const DTYPES = [
  { value: "auto", label: "Automatic (float32 on CPU, bfloat16 on GPU)" },
  { value: "float32", label: "float32" },
  { value: "bfloat16", label: "bfloat16" },
  { value: "float16", label: "float16" },
];

interface SettingsFieldsProps {
  /** What the form knows of one setting. */
  readonly input: (name: keyof EngineSettings) => GetInputPropsReturnType;
}

/** How the engine is to run. */
export function SettingsFields({ input }: SettingsFieldsProps) {
  const { onChange, value, ...limit } = input("max_model_len") as LimitProps;
  return (
    <Stack gap="md">
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberInput
          label="Longest request"
          description="Prompt and answer, in tokens"
          placeholder="The model's own limit"
          min={1}
          {...limit}
          value={value ?? ""}
          onChange={(next) => onChange(typeof next === "number" ? next : null)}
        />
        <NumberInput
          label="KV cache"
          description="Tokens per worker"
          min={16}
          step={1024}
          thousandSeparator=","
          {...input("kv_tokens")}
        />
        <NumberInput
          label="Prefill chunk"
          description="Prompt tokens per step; 0 reads prompts whole"
          min={0}
          step={64}
          {...input("prefill_chunk_tokens")}
        />
        <NumberInput
          label="Largest batch"
          description="Requests in one decode step"
          min={1}
          {...input("max_running")}
        />
        <NumberInput label="KV block" description="Tokens per block" min={1} {...input("block_size")} />
      </SimpleGrid>
      <Select label="Number format" data={DTYPES} {...input("dtype")} />
    </Stack>
  );
}

interface LimitProps {
  readonly value: number | null;
  readonly onChange: (value: number | null) => void;
  readonly error?: string;
}
