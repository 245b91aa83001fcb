// What is to be deployed, as a form; and the request made of it.

import { useForm } from "@mantine/form";
import { DEFAULT_ENGINE_SETTINGS, DEFAULT_ROUTING_POLICY, type EngineSettings } from "@/generated/contracts";
import { routingOf, routingValues, type RoutingValues } from "./routing-form";
import { inSeconds, type SloValues } from "./slo";

/** Two pools, or one whose workers do both. */
export type Shape = "split" | "unified";

/** An emptied number field holds text. */
export interface DeployValues extends SloValues {
  readonly name: string;
  readonly model: string;
  /** Of a hub model; empty: as the catalogue says. */
  readonly model_revision: string;
  readonly shape: Shape;
  readonly prefill: number | string;
  readonly decode: number | string;
  readonly unified: number | string;
  readonly local_prefill_tokens: number | string;
  readonly routing: RoutingValues;
  readonly settings: EngineSettings;
  readonly tensor_parallel: number | string;
  readonly strategy: string;
  /** What devices of all workers must have; of one stage, where workers are apart. */
  readonly labels: string[];
  readonly prefill_labels: string[];
  readonly decode_labels: string[];
}

const INITIAL: DeployValues = {
  name: "",
  model: "",
  model_revision: "",
  shape: "split",
  prefill: 1,
  decode: 1,
  unified: 1,
  local_prefill_tokens: 64,
  routing: routingValues(DEFAULT_ROUTING_POLICY),
  settings: DEFAULT_ENGINE_SETTINGS,
  tensor_parallel: 1,
  strategy: "spread",
  labels: [],
  prefill_labels: [],
  decode_labels: [],
  ttft_ms: "",
  tpot_ms: "",
};

/** model: name of the one to begin with; empty: none. taken: names of deployments. */
export function begin(model: string, taken: readonly string[]): DeployValues {
  return { ...INITIAL, model, name: freeName(model, taken) };
}

/** The model's own name, or that with the first number that nobody has taken. */
export function freeName(model: string, taken: readonly string[]): string {
  let name = model;
  for (let number = 2; taken.includes(name); number += 1) name = `${model}-${number}`;
  return name;
}

export function useDeployForm(model: string, taken: readonly string[]) {
  return useForm<DeployValues>({ initialValues: begin(model, taken) });
}

export type DeployForm = ReturnType<typeof useDeployForm>;

/** What is left to be entered; null when it can be asked for. */
export function missing(values: DeployValues): string | null {
  if (values.model === "") return "Choose a model to see what would happen.";
  if (values.name.trim() === "") return "Give it a name to see what would happen.";
  const { kv_tokens, block_size, prefill_chunk_tokens, max_running, threads, kv_streams } = values.settings;
  const numbers: readonly unknown[] = [
    ...(values.shape === "split" ? [values.prefill, values.decode] : [values.unified]),
    values.local_prefill_tokens,
    values.tensor_parallel,
    ...[kv_tokens, block_size, prefill_chunk_tokens, max_running, threads, kv_streams],
  ];
  return numbers.every((value) => typeof value === "number") ? null : "A number is missing.";
}

/** The body of the request. */
export function requestOf(values: DeployValues): Readonly<Record<string, unknown>> {
  const { shape, prefill, decode, unified, labels, prefill_labels, decode_labels, ttft_ms, tpot_ms, routing, ...same } =
    values;
  return {
    ...same,
    name: same.name.trim(),
    model_revision: same.model_revision.trim(),
    ...(shape === "split" ? { prefill, decode, prefill_labels, decode_labels } : { unified, labels }),
    routing: routingOf(routing),
    slo_ttft_s: inSeconds(ttft_ms),
    slo_tpot_s: inSeconds(tpot_ms),
  };
}

/** Workers, and the devices that they need. */
export function sizeOf({ shape, prefill, decode, unified, tensor_parallel: each }: DeployValues) {
  const workers = shape === "split" ? Number(prefill) + Number(decode) : Number(unified);
  return { workers, devices: workers * Number(each) };
}
