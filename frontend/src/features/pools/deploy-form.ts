import { useForm } from "@mantine/form";
import { DEFAULT_ENGINE_SETTINGS } from "@/generated/contracts";
import type { NewDeployment } from "./api/create-deployment";

/** Two pools, or one whose workers do both. */
export type Shape = "split" | "unified";

export interface DeployValues extends NewDeployment {
  readonly shape: Shape;
}

export function useDeployForm() {
  return useForm<DeployValues>({
    initialValues: {
      name: "",
      model: "",
      shape: "split",
      prefill: 1,
      decode: 1,
      unified: 1,
      local_prefill_tokens: 64,
      settings: DEFAULT_ENGINE_SETTINGS,
    },
    validate: {
      name: (value) => (/^[a-z0-9][a-z0-9._-]*$/i.test(value) ? null : "Letters, digits, '.', '-' and '_'"),
      model: (value) => (value === "" ? "Choose a model" : null),
      prefill: number,
      decode: number,
      unified: number,
      local_prefill_tokens: number,
      settings: {
        kv_tokens: number,
        block_size: number,
        prefill_chunk_tokens: number,
        max_running: number,
      },
    },
  });
}

export type DeployForm = ReturnType<typeof useDeployForm>;

/** An emptied number field holds text. */
function number(value: unknown): string | null {
  return typeof value === "number" ? null : "Enter a number";
}

/** The counts of the chosen shape; the other shape's are none. */
export function counts({ shape, prefill, decode, unified }: DeployValues) {
  return shape === "split" ? { prefill, decode, unified: 0 } : { prefill: 0, decode: 0, unified };
}
