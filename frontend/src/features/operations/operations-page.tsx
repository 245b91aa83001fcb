import { Drawer, Paper, Table, Text } from "@mantine/core";
import { IconHistory } from "@tabler/icons-react";
import { useNavigate, useParams } from "react-router";
import type { OperationView } from "@/generated/contracts";
import { Change, secondsTaken } from "@/components/operation";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { OperationStatus } from "@/components/status";
import { ago, dateTime, elapsed } from "@/lib/format";
import { useLoaded, useOperations, useServerNow } from "@/live/hooks";
import { useOperation } from "./api/get-operation";
import { OperationDetail } from "./operation-detail";
import classes from "./operations.module.css";

/** Newest first; `/operations/<id>` opens one. */
export function OperationsPage() {
  const loaded = useLoaded();
  const operations = useOperations();
  const { id } = useParams();
  const navigate = useNavigate();
  return (
    <Page title="Operations" description="Everything operators asked for: who, why, what changed, and how it went.">
      {!loaded && <Loading rows={1} height={240} />}
      {loaded && operations.length === 0 && (
        <Empty icon={<IconHistory />} title="Nothing has been asked for yet">
          Deploying, resizing and deleting leave a record here with every step.
        </Empty>
      )}
      {operations.length > 0 && <OperationTable onOpen={(one) => void navigate(`/operations/${one.id}`)} />}
      <Drawer opened={id !== undefined} onClose={() => void navigate("/operations")} title="Operation" size="md">
        {id !== undefined && <OneOperation id={id} />}
      </Drawer>
    </Page>
  );
}

function OneOperation({ id }: { readonly id: string }) {
  const live = useOperations().find((operation) => operation.id === id);
  const loaded = useLoaded();
  const stored = useOperation(loaded && live === undefined ? id : null);
  const operation = live ?? stored.data;
  if (operation !== undefined) return <OperationDetail operation={operation} />;
  return stored.isError ? <Failure error={stored.error} title="This operation can't be shown" /> : <Loading />;
}

function OperationTable({ onOpen }: { readonly onOpen: (operation: OperationView) => void }) {
  const operations = useOperations();
  const now = useServerNow();
  return (
    <Paper>
      <Table highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>State</Table.Th>
            <Table.Th>Operation</Table.Th>
            <Table.Th visibleFrom="sm">Change</Table.Th>
            <Table.Th visibleFrom="sm">By</Table.Th>
            <Table.Th visibleFrom="sm">Started</Table.Th>
            <Table.Th ta="right" visibleFrom="xs">
              Took
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {operations.map((operation) => (
            <Table.Tr
              key={operation.id}
              className={classes.row ?? ""}
              onClick={() => onOpen(operation)}
              data-testid="operation-row"
              data-state={operation.state}
            >
              <Table.Td>
                <OperationStatus state={operation.state} />
              </Table.Td>
              <Table.Td>
                <button type="button" className={classes.open} onClick={() => onOpen(operation)}>
                  {operation.title}
                </button>
                <Text size="xs" c="dimmed">
                  {operation.target}
                  {operation.reason !== "" && ` · “${operation.reason}”`}
                </Text>
                <Text size="xs" c="dimmed" hiddenFrom="sm">
                  <Change operation={operation} /> · {ago(operation.requested_at, now)} by {operation.requested_by}
                </Text>
              </Table.Td>
              <Table.Td visibleFrom="sm">
                <Change operation={operation} />
              </Table.Td>
              <Table.Td visibleFrom="sm">{operation.requested_by}</Table.Td>
              <Table.Td visibleFrom="sm">
                <span className="figures" title={dateTime(operation.requested_at)}>
                  {ago(operation.requested_at, now)}
                </span>
              </Table.Td>
              <Table.Td ta="right" className="figures" visibleFrom="xs">
                {elapsed(secondsTaken(operation, now))}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}
