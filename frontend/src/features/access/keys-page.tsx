import { Button, Paper, Table, Text } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { Status } from "@/components/status";
import { ago, dateTime } from "@/lib/format";
import { useServerNow } from "@/live/hooks";
import { useKeys, type ServingKey } from "./api/list-keys";
import { NewKeyDialog } from "./new-key-dialog";
import { RevokeDialog } from "./revoke-dialog";

/** `?add` in the address opens the dialog. */
export function KeysPage() {
  const keys = useKeys();
  const [params, setParams] = useSearchParams();
  const [revoking, setRevoking] = useState<ServingKey | null>(null);
  return (
    <Page
      title="Keys"
      description="Serving keys let programs call the models. A key is shown once, when it is made."
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
          Create a key
        </Button>
      }
    >
      {keys.isPending && <Loading rows={1} height={160} />}
      {keys.isError && (
        <Failure error={keys.error} title="The keys can't be shown" onRetry={() => void keys.refetch()} />
      )}
      {keys.data?.length === 0 && (
        <Empty icon={<IconKey />} title="No keys yet">
          Every call to the serving API carries a key. Make one per program, so that each can be revoked alone.
        </Empty>
      )}
      {keys.data !== undefined && keys.data.length > 0 && <KeyTable keys={keys.data} onRevoke={setRevoking} />}
      <NewKeyDialog opened={params.has("add")} onClose={() => setParams({})} />
      <RevokeDialog servingKey={revoking} onClose={() => setRevoking(null)} />
    </Page>
  );
}

interface KeyTableProps {
  readonly keys: readonly ServingKey[];
  readonly onRevoke: (key: ServingKey) => void;
}

function KeyTable({ keys, onRevoke }: KeyTableProps) {
  const now = useServerNow(10_000);
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th visibleFrom="xs">Key</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th visibleFrom="sm">Created</Table.Th>
            <Table.Th visibleFrom="sm">Expires</Table.Th>
            <Table.Th aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map((key) => {
            const state = stateOf(key, now);
            return (
              <Table.Tr key={key.id} data-testid="key-row">
                <Table.Td>
                  <Text size="sm" fw={550}>
                    {key.name}
                  </Text>
                  <Text size="xs" c="dimmed" hiddenFrom="sm">
                    <span className="mono">{key.prefix}…</span> · expires: {expiry(key)}
                  </Text>
                </Table.Td>
                <Table.Td className="mono" visibleFrom="xs">
                  {key.prefix}…
                </Table.Td>
                <Table.Td>
                  <Status tone={state === "Active" ? "good" : "busy"}>{state}</Status>
                </Table.Td>
                <Table.Td className="figures" visibleFrom="sm">
                  {ago(key.created_at, now)}
                </Table.Td>
                <Table.Td className="figures" visibleFrom="sm">
                  {expiry(key)}
                </Table.Td>
                <Table.Td ta="right">
                  {state === "Active" && (
                    <Button
                      variant="subtle"
                      color="red"
                      size="compact-sm"
                      onClick={() => onRevoke(key)}
                      aria-label={`Revoke ${key.name}`}
                    >
                      Revoke
                    </Button>
                  )}
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

function expiry(key: ServingKey): string {
  return key.expires_at === null ? "never" : dateTime(key.expires_at);
}

function stateOf(key: ServingKey, now: number): "Active" | "Revoked" | "Expired" {
  if (key.revoked_at !== null) return "Revoked";
  return key.expires_at !== null && Date.parse(key.expires_at) <= now ? "Expired" : "Active";
}
