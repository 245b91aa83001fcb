import { Button, Paper, Table, Text } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { ago } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useServerNow } from "@/live/hooks";
import { useKeys, type ServingKey } from "./api/list-keys";
import { RevokeDialog, RotateDialog } from "./credential-dialogs";
import { CredentialMenu } from "./credential-menu";
import { CredentialStatus, expiry } from "./credential-state";
import { KeyDialog } from "./key-dialog";
import { isGood, stateOf } from "./lifetimes";

interface Doing {
  readonly what: "change" | "rotate" | "revoke";
  readonly key: ServingKey;
}

/** `?add` in the address opens the dialog. */
export function KeysPage() {
  const keys = useKeys();
  const mayChange = useMay();
  const [params, setParams] = useSearchParams();
  const [doing, setDoing] = useState<Doing | null>(null);
  const subject = (what: Doing["what"]): ServingKey | null => (doing?.what === what ? doing.key : null);
  const close = (): void => setDoing(null);
  return (
    <Page
      title="Keys"
      description="Serving keys let programs call the models. A key is shown once, when it is made."
      actions={
        mayChange && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
            Create a key
          </Button>
        )
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
      {keys.data !== undefined && keys.data.length > 0 && (
        <KeyTable keys={keys.data} mayChange={mayChange} onDo={setDoing} />
      )}
      <KeyDialog subject={mayChange && params.has("add") ? "new" : null} onClose={() => setParams({})} />
      <KeyDialog subject={subject("change")} onClose={close} />
      <RotateDialog kind="keys" credential={subject("rotate")} onClose={close} />
      <RevokeDialog kind="keys" credential={subject("revoke")} onClose={close} />
    </Page>
  );
}

interface KeyTableProps {
  readonly keys: readonly ServingKey[];
  readonly mayChange: boolean;
  readonly onDo: (doing: Doing) => void;
}

function KeyTable({ keys, mayChange, onDo }: KeyTableProps) {
  const now = useServerNow(10_000);
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th visibleFrom="md">May call</Table.Th>
            <Table.Th visibleFrom="md">Limits</Table.Th>
            <Table.Th visibleFrom="xs" className="nowrap">
              Last used
            </Table.Th>
            <Table.Th visibleFrom="sm">Expires</Table.Th>
            <Table.Th aria-label="Actions" w={60} />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map((key) => (
            <Table.Tr key={key.id} data-testid="key-row">
              <Table.Td>
                <Text size="sm" fw={550}>
                  {key.name}
                </Text>
                <Text size="xs" c="dimmed" className="nowrap">
                  <span className="mono">{key.prefix}…</span>
                </Text>
                <Text size="xs" c="dimmed" hiddenFrom="md">
                  {scopeOf(key)} · {limitsOf(key)}
                </Text>
              </Table.Td>
              <Table.Td>
                <CredentialStatus credential={key} nowMs={now} />
              </Table.Td>
              <Table.Td visibleFrom="md">{scopeOf(key)}</Table.Td>
              <Table.Td visibleFrom="md" className="figures">
                {limitsOf(key)}
              </Table.Td>
              <Table.Td className="figures nowrap" visibleFrom="xs">
                {ago(key.last_used_at, now)}
              </Table.Td>
              <Table.Td className="figures nowrap" visibleFrom="sm">
                {expiry(key.expires_at)}
              </Table.Td>
              <Table.Td ta="right">
                {mayChange && isGood(stateOf(key, now)) && (
                  <CredentialMenu
                    name={key.name}
                    onChange={() => onDo({ what: "change", key })}
                    onRotate={() => onDo({ what: "rotate", key })}
                    onRevoke={() => onDo({ what: "revoke", key })}
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

function scopeOf({ models }: ServingKey): string {
  return models.length === 0 ? "all models" : models.join(", ");
}

function limitsOf({ requests_per_minute: perMinute, max_concurrent: atOnce }: ServingKey): string {
  const parts = [
    perMinute === null ? null : `${perMinute} a minute`,
    atOnce === null ? null : `${atOnce} at once`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? "no limits" : parts.join(", ");
}
