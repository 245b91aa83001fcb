import { MultiSelect, NumberInput, Select, SimpleGrid, Stack, Switch } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import { KVTransport, type EngineSettings } from "@/generated/contracts";
import { inMilliseconds, inSeconds } from "./slo";

const DTYPES = [
  { value: "auto", label: "Automatic" },
  { value: "float32", label: "float32" },
  { value: "bfloat16", label: "bfloat16" },
  { value: "float16", label: "float16" },
];

const TRANSPORTS = [
  { value: KVTransport.SHARED_MEMORY, label: "Shared memory" },
  { value: KVTransport.TCP, label: "TCP" },
  { value: KVTransport.NIXL, label: "NIXL" },
];

const WIRE_DTYPES = [
  { value: "", label: "As computed" },
  { value: "bfloat16", label: "bfloat16" },
];

interface SettingsFieldsProps {
  /** What the form knows of one setting. */
  readonly input: (name: keyof EngineSettings) => GetInputPropsReturnType;
}

/** How the engine is to run. */
export function SettingsFields({ input }: SettingsFieldsProps) {
  const { onChange, value, ...limit } = input("max_model_len") as Props<number | null>;
  const itl = input("itl_target_s") as Props<number>;
  const sharing = input("prefix_cache") as Props<boolean>;
  const byLayer = input("kv_by_layer") as Props<boolean>;
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
          description="Prompt tokens a step; 0 takes all"
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
        <NumberInput
          label="Step target"
          description="Prompts are read slower to keep it"
          placeholder="No target"
          suffix=" ms"
          min={0}
          {...itl}
          value={itl.value === 0 ? "" : inMilliseconds(itl.value)}
          onChange={(next) => itl.onChange(inSeconds(next) ?? 0)}
        />
        <NumberInput label="CPU threads" description="0: as many of its cores as help" min={0} {...input("threads")} />
        <Select
          label="Number format"
          description="Automatic: float32 on CPU, bfloat16 on GPU"
          data={DTYPES}
          {...input("dtype")}
        />
        <MultiSelect
          label="KV transports"
          description="The best first; TCP where none can"
          data={TRANSPORTS}
          {...input("kv_transports")}
        />
        <Select
          label="KV format on TCP"
          description="bfloat16 halves float32 KV; answers may differ"
          data={WIRE_DTYPES}
          allowDeselect={false}
          {...input("kv_wire_dtype")}
        />
        <NumberInput
          label="KV streams"
          description="TCP connections per prompt"
          min={1}
          max={16}
          {...input("kv_streams")}
        />
      </SimpleGrid>
      <Switch
        label="Prefix cache"
        description="Requests share the KV of equal beginnings of their prompts"
        checked={sharing.value}
        onChange={(event) => sharing.onChange(event.currentTarget.checked)}
      />
      <Switch
        label="KV by layer"
        description="On CPUs each layer of a chunk leaves once it is computed, not the chunk afterwards"
        checked={byLayer.value}
        onChange={(event) => byLayer.onChange(event.currentTarget.checked)}
      />
    </Stack>
  );
}

interface Props<T> {
  readonly value: T;
  readonly onChange: (value: T) => void;
  readonly error?: string;
}
