import { Text } from "@mantine/core";
import classes from "./changes.module.css";

export interface Change {
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/** What a change makes of what was seen, value by value; `note` says when it counts. */
export function Changes({ changes, note }: { readonly changes: readonly Change[]; readonly note?: string }) {
  return (
    <div className={classes.changes} data-testid="changes">
      {changes.length === 0 ? (
        <Text size="sm" c="dimmed">
          It is like that already.
        </Text>
      ) : (
        <dl className={`figures ${classes.list ?? ""}`}>
          {changes.map(({ name, before, after }) => (
            <ChangeLine key={name} name={name} before={before} after={after} />
          ))}
        </dl>
      )}
      {note !== undefined && changes.length > 0 && (
        <Text size="xs" c="dimmed" mt={8}>
          {note}
        </Text>
      )}
    </div>
  );
}

function ChangeLine({ name, before, after }: Change) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <span className={classes.before}>{before} →</span> {after}
      </dd>
    </>
  );
}
