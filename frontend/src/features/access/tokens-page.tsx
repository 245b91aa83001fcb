import { Button, Paper, Table, Text } from "@mantine/core";
import { IconPlus, IconTerminal2 } from "@tabler/icons-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { UserRole } from "@/generated/contracts";
import { ago } from "@/lib/format";
import { may, useMay, useWho } from "@/lib/who";
import { useServerNow } from "@/live/hooks";
import { useTokens, type ManagementToken } from "./api/tokens";
import { RevokeDialog, RotateDialog } from "./credential-dialogs";
import { CredentialMenu } from "./credential-menu";
import { CredentialStatus, expiry } from "./credential-state";
import { isGood, stateOf } from "./lifetimes";
import { NewTokenDialog } from "./new-token-dialog";
import { ROLE_NAME } from "./roles";

interface Doing {
  readonly what: "rotate" | "revoke";
  readonly token: ManagementToken;
}

/** `?add` in the address opens the dialog. */
export function TokensPage() {
  const tokens = useTokens();
  const who = useWho();
  const isAdmin = useMay(UserRole.ADMIN);
  const mayHaveSome = may(who, UserRole.OPERATOR) || Object.keys(who.grants).length > 0;
  const [params, setParams] = useSearchParams();
  const [doing, setDoing] = useState<Doing | null>(null);
  const subject = (what: Doing["what"]): ManagementToken | null => (doing?.what === what ? doing.token : null);
  const close = (): void => setDoing(null);
  return (
    <Page
      title="Tokens"
      description={`Management tokens let programs operate Tandem over its API, never with more rights than their owner.${isAdmin ? " You see those of everybody." : ""}`}
      actions={
        mayHaveSome && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
            Create a token
          </Button>
        )
      }
    >
      {tokens.isPending && <Loading rows={1} height={160} />}
      {tokens.isError && (
        <Failure error={tokens.error} title="The tokens can't be shown" onRetry={() => void tokens.refetch()} />
      )}
      {tokens.data?.length === 0 && (
        <Empty icon={<IconTerminal2 />} title="No tokens yet">
          Scripts and the command line client sign in with a token. It can be bound to single deployments.
        </Empty>
      )}
      {tokens.data !== undefined && tokens.data.length > 0 && <TokenTable tokens={tokens.data} onDo={setDoing} />}
      <NewTokenDialog opened={mayHaveSome && params.has("add")} onClose={() => setParams({})} />
      <RotateDialog kind="tokens" credential={subject("rotate")} onClose={close} />
      <RevokeDialog kind="tokens" credential={subject("revoke")} onClose={close} />
    </Page>
  );
}

interface TokenTableProps {
  readonly tokens: readonly ManagementToken[];
  readonly onDo: (doing: Doing) => void;
}

function TokenTable({ tokens, onDo }: TokenTableProps) {
  const now = useServerNow(10_000);
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th visibleFrom="sm">Role</Table.Th>
            <Table.Th visibleFrom="md">Deployments</Table.Th>
            <Table.Th visibleFrom="xs" className="nowrap">
              Last used
            </Table.Th>
            <Table.Th visibleFrom="sm">Expires</Table.Th>
            <Table.Th aria-label="Actions" w={60} />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tokens.map((token) => (
            <Table.Tr key={token.id} data-testid="token-row">
              <Table.Td>
                <Text size="sm" fw={550}>
                  {token.name}
                </Text>
                <Text size="xs" c="dimmed" className="nowrap">
                  <span className="mono">{token.prefix}…</span> of {token.owner ?? "Tandem itself"}
                </Text>
              </Table.Td>
              <Table.Td>
                <CredentialStatus credential={token} nowMs={now} />
              </Table.Td>
              <Table.Td visibleFrom="sm">{ROLE_NAME[token.role]}</Table.Td>
              <Table.Td visibleFrom="md">{token.only === null ? "all" : token.only.join(", ")}</Table.Td>
              <Table.Td className="figures nowrap" visibleFrom="xs">
                {ago(token.last_used_at, now)}
              </Table.Td>
              <Table.Td className="figures nowrap" visibleFrom="sm">
                {expiry(token.expires_at)}
              </Table.Td>
              <Table.Td ta="right">
                {isGood(stateOf(token, now)) && (
                  <CredentialMenu
                    name={token.name}
                    onRotate={() => onDo({ what: "rotate", token })}
                    onRevoke={() => onDo({ what: "revoke", token })}
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
