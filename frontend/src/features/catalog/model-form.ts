// What people say of a model, as a form; and the requests made of it.

import type { Change } from "@/components/changes";
import type { ModelView } from "@/generated/contracts";
import { changedIn, type Edit } from "@/lib/edit";

export interface ModelValues {
  readonly path: string;
  readonly revision: string;
  readonly licence: string;
  readonly description: string;
  /** Content of its config.json; empty: read from its files. */
  readonly config: string;
  /** What is known of it counts no more, and is read again. */
  readonly forget: boolean;
}

export const NOTHING_SAID: ModelValues = {
  path: "",
  revision: "",
  licence: "",
  description: "",
  config: "",
  forget: false,
};

export function valuesOf({ path, revision, licence, description }: ModelView): ModelValues {
  return { ...NOTHING_SAID, path, revision, licence, description };
}

/** What is wrong with the values before anybody is asked, by field. */
export function faults({ path, config }: ModelValues): Readonly<Partial<Record<keyof ModelValues, string>>> {
  return {
    ...(path.trim() === "" ? { path: "Name a directory, a hub id or an address" } : {}),
    ...(config.trim() === "" || configOf(config) !== null
      ? {}
      : { config: "This is not the content of a config.json" }),
  };
}

/** The body for a new model. */
export function newModel(name: string, values: ModelValues): Readonly<Record<string, unknown>> {
  const { path, revision, licence, description, config } = values;
  const told = config.trim() === "" ? {} : { config: configOf(config) };
  return { name: name.trim(), path, revision, licence, description, ...told };
}

/** The body for a change: only what differs. */
export function requestOf(edit: Edit<ModelValues>): Readonly<Record<string, unknown>> {
  const { config, forget, ...said } = changedIn(edit);
  return {
    ...said,
    ...(config === undefined ? {} : { config: configOf(config) }),
    ...(forget === true ? { shape: null } : {}),
  };
}

/** What differs between what was seen and what is wanted, in words. */
export function modelChanges({ seen, wanted }: Edit<ModelValues>): readonly Change[] {
  const words = LABELS.map(([name, of]) => ({ name, before: of(seen), after: of(wanted) }));
  return words.filter((change) => change.before !== change.after);
}

const LABELS: readonly (readonly [string, (values: ModelValues) => string])[] = [
  ["Weights", ({ path }) => path],
  ["Revision", ({ revision }) => revision || "the hub's default"],
  ["Licence", ({ licence }) => licence || "none given"],
  ["Description", ({ description }) => description || "none"],
  ["What it is made of", ({ config, forget }) => madeOf(config, forget)],
];

function madeOf(config: string, forget: boolean): string {
  if (config.trim() !== "") return "as this config.json says";
  return forget ? "read again from its files" : "as known";
}

function configOf(text: string): object | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? parsed : null;
  } catch {
    return null;
  }
}
