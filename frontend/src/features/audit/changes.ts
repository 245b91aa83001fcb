// What an entry of the audit trail says has changed.

import { isRecord } from "@/lib/api";

export interface ValueChange {
  readonly name: string;
  /** null: was not there. */
  readonly before: string | null;
  /** null: is not there any more, or was not told. */
  readonly after: string | null;
}

/** Field by field, leaving out what stayed; one nameless change where before and after are no objects. */
export function changesOf(before: unknown, after: unknown): readonly ValueChange[] {
  if (!isRecord(before) && !isRecord(after)) {
    if (before === null && after === null) return [];
    return [{ name: "", before: inWords(before), after: inWords(after) }];
  }
  const [was, is] = [isRecord(before) ? before : {}, isRecord(after) ? after : {}];
  return [...new Set([...Object.keys(was), ...Object.keys(is)])]
    .map((name) => ({ name, before: inWords(was[name]), after: inWords(is[name]) }))
    .filter((change) => change.before !== change.after);
}

function inWords(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}
