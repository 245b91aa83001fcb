// What is known of a model, in words.

import type { ModelShape, ModelView } from "@/generated/contracts";
import { bytes, count, UNKNOWN } from "@/lib/format";

export function parametersInWords(shape: ModelShape | null): string {
  const all = shape?.parameters ?? null;
  const active = shape?.active_parameters ?? null;
  if (all === null) return UNKNOWN;
  return active === null || active === all ? short(all) : `${short(all)}, ${short(active)} active per token`;
}

/** "135M", "8.19B". */
function short(parameters: number): string {
  return parameters >= 1e9 ? `${(parameters / 1e9).toFixed(2)}B` : count(parameters);
}

export function weightsInWords(shape: ModelShape | null): string {
  const kinds = Object.entries(shape?.weights_bytes ?? {});
  if (kinds.length === 0) return UNKNOWN;
  const total = kinds.reduce((sum, [, size]) => sum + size, 0);
  return `${bytes(total)} (${kinds.map(([kind]) => kind).join(", ")})`;
}

/** Why an engine can't serve it: pairs of engine and reason; null where that is not known. */
export function enginesOf(shape: ModelShape | null): readonly (readonly [string, string])[] | null {
  return shape?.engines === undefined || shape.engines === null ? null : Object.entries(shape.engines);
}

export function kvInWords(model: ModelView): string {
  const { kv_bytes_per_token: token, kv_bytes_of_context: context } = model;
  if (token === null) return UNKNOWN;
  const windows = model.shape?.kv?.filter((layers) => layers.window !== null) ?? [];
  const sliding = windows.length === 0 ? "" : ", some layers with a window";
  return `${bytes(token)} a token${context === null ? "" : `, ${bytes(context)} for a full context`}${sliding}`;
}
