import { Paper, Table, Text } from "@mantine/core";
import { ago } from "@/lib/format";
import { useServerNow } from "@/live/hooks";
import type { Credential } from "./api/credentials";
import { CredentialMenu, type CredentialAction } from "./credential-menu";
import { CredentialStatus, expiry } from "./credential-state";
import { isGood, stateOf } from "./lifetimes";

/** What this kind of credential has beside what all have. */
export interface Column<T> {
  readonly title: string;
  readonly show: (credential: T) => readonly string[];
  /** The same without its title, where there is no room for columns; nothing where it goes without saying. */
  readonly brief?: (credential: T) => readonly string[];
}

interface CredentialTableProps<T> {
  readonly credentials: readonly T[];
  readonly columns: readonly Column<T>[];
  /** Beside the beginning of its secret. */
  readonly ofWhom?: (credential: T) => string;
  /** What can be done with one; none while it may only be looked at. */
  readonly actions: readonly CredentialAction[];
  readonly onAct: (action: CredentialAction, credential: T) => void;
  readonly rowTestId: string;
}

/** Each with its state, what it may do, when it was used and when it ends. Where there is no room for columns, they
 * stand under the name. */
export function CredentialTable<T extends Credential>(props: CredentialTableProps<T>) {
  const { credentials, columns, ofWhom, actions, onAct, rowTestId } = props;
  const now = useServerNow(10_000);
  return (
    <Paper style={{ overflowX: "auto" }}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>State</Table.Th>
            {columns.map(({ title }) => (
              <Table.Th key={title} visibleFrom="lg">
                {title}
              </Table.Th>
            ))}
            <Table.Th visibleFrom="xs" className="nowrap">
              Last used
            </Table.Th>
            <Table.Th visibleFrom="md">Expires</Table.Th>
            <Table.Th aria-label="Actions" w={60} />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {credentials.map((credential) => (
            <Table.Tr key={credential.id} data-testid={rowTestId}>
              <Table.Td>
                <Text size="sm" fw={550}>
                  {credential.name}
                </Text>
                <Text size="xs" c="dimmed">
                  <span className="mono nowrap">{credential.prefix}…</span> {ofWhom?.(credential)}
                </Text>
                <Text size="xs" c="dimmed" hiddenFrom="lg">
                  {columns.flatMap(({ show, brief = show }) => brief(credential)).join(" · ")}
                </Text>
              </Table.Td>
              <Table.Td>
                <CredentialStatus credential={credential} nowMs={now} />
              </Table.Td>
              {columns.map(({ title, show }) => (
                <Table.Td key={title} visibleFrom="lg" className="figures">
                  <Parts of={show(credential)} />
                </Table.Td>
              ))}
              <Table.Td className="figures nowrap" visibleFrom="xs">
                {ago(credential.last_used_at, now)}
              </Table.Td>
              <Table.Td className="figures nowrap" visibleFrom="md">
                {expiry(credential.expires_at)}
              </Table.Td>
              <Table.Td ta="right">
                {actions.length > 0 && isGood(stateOf(credential, now)) && (
                  <CredentialMenu
                    name={credential.name}
                    actions={actions}
                    onAct={(action) => onAct(action, credential)}
                  />
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

/** Side by side, each on one line. */
function Parts({ of }: { readonly of: readonly string[] }) {
  return of.flatMap((part, at) => [
    <span key={part} className="nowrap">
      {part}
      {at < of.length - 1 && ","}
    </span>,
    " ",
  ]);
}
