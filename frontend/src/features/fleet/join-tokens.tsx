import { Button, Paper, Table, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconTicket } from "@tabler/icons-react";
import { Empty, Failure, Loading } from "@/components/states";
import type { JoinTokenOpenView } from "@/generated/contracts";
import { messageOf } from "@/lib/api";
import { ago, dateTime } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useServerNow } from "@/live/hooks";
import { useJoinTokens, useRevokeJoinToken } from "./api/join-tokens";

/** Join tokens that were not used yet. */
export function JoinTokens() {
  const tokens = useJoinTokens();
  if (tokens.isPending) return <Loading rows={1} height={120} />;
  if (tokens.isError) {
    return <Failure error={tokens.error} title="Join tokens can't be shown" onRetry={() => void tokens.refetch()} />;
  }
  if (tokens.data.length === 0) {
    return (
      <Empty icon={<IconTicket />} title="No join token is open">
        Adding a node makes a token that lets one machine join, once. It is listed here until it is used or expires.
      </Empty>
    );
  }
  return <TokenTable tokens={tokens.data} />;
}

function TokenTable({ tokens }: { readonly tokens: readonly JoinTokenOpenView[] }) {
  const now = useServerNow(10_000);
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>For</Table.Th>
            <Table.Th visibleFrom="xs">Made</Table.Th>
            <Table.Th>Good until</Table.Th>
            <Table.Th aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tokens.map((token) => (
            <Table.Tr key={token.id} data-testid="join-token-row">
              <Table.Td>
                {token.note || (
                  <Text size="sm" c="dimmed">
                    any machine
                  </Text>
                )}
              </Table.Td>
              <Table.Td visibleFrom="xs" className="figures">
                {ago(token.created_at, now)} by {token.created_by}
              </Table.Td>
              <Table.Td className="figures">{dateTime(token.expires_at)}</Table.Td>
              <Table.Td ta="right">
                <Revoke token={token} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

function Revoke({ token }: { readonly token: JoinTokenOpenView }) {
  const mayChange = useMay();
  const revoke = useRevokeJoinToken();
  if (!mayChange) return null;
  return (
    <Button
      variant="subtle"
      color="red"
      size="compact-sm"
      loading={revoke.isPending}
      aria-label={`Revoke the join token ${token.note}`}
      onClick={() =>
        revoke.mutate(token.id, {
          onSuccess: () => notifications.show({ message: "The join token is revoked." }),
          onError: (error) => notifications.show({ color: "red", title: "Not revoked", message: messageOf(error) }),
        })
      }
    >
      Revoke
    </Button>
  );
}
