// An edit of something that others may change, too: field by field, so that nobody overwrites what they did not touch.

export interface Edit<T extends object> {
  /** As it was when the edit began, or when it was last reviewed. */
  readonly seen: T;
  readonly wanted: T;
}

export function beginEdit<T extends object>(seen: T): Edit<T> {
  return { seen, wanted: seen };
}

/** Only the fields that are wanted otherwise than they were seen. */
export function changedIn<T extends object>({ seen, wanted }: Edit<T>): Partial<T> {
  return Object.fromEntries(
    Object.entries(wanted).filter(([name, value]) => !isEqual(value, seen[name as keyof T])),
  ) as Partial<T>;
}

export function changesAnything(edit: Edit<object>): boolean {
  return Object.keys(changedIn(edit)).length > 0;
}

/** The same edit of what is there `now`: fields that were not touched are as they are now. */
export function rebased<T extends object>(edit: Edit<T>, now: T): Edit<T> {
  return { seen: now, wanted: { ...now, ...changedIn(edit) } };
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
