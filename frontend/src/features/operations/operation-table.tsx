import { Paper, Table, Text } from "@mantine/core";
import { Change, secondsTaken } from "@/components/operation";
import { OperationStatus } from "@/components/status";
import type { OperationView } from "@/generated/contracts";
import { ago, dateTime, elapsed } from "@/lib/format";
import { useServerNow } from "@/live/hooks";
import classes from "./operations.module.css";

interface OperationTableProps {
  readonly operations: readonly OperationView[];
  readonly onOpen: (operation: OperationView) => void;
}

export function OperationTable({ operations, onOpen }: OperationTableProps) {
  const now = useServerNow();
  return (
    <Paper>
      <Table highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>State</Table.Th>
            <Table.Th>Operation</Table.Th>
            <Table.Th visibleFrom="md">Change</Table.Th>
            <Table.Th visibleFrom="sm">By</Table.Th>
            <Table.Th visibleFrom="sm">Asked for</Table.Th>
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
                {operation.reason !== "" && (
                  <Text size="xs" c="dimmed">
                    “{operation.reason}”
                  </Text>
                )}
                <Text size="xs" c="dimmed" hiddenFrom="sm">
                  {ago(operation.requested_at, now)} by {operation.requested_by}
                </Text>
              </Table.Td>
              <Table.Td visibleFrom="md">
                <Change operation={operation} />
              </Table.Td>
              <Table.Td visibleFrom="sm">{operation.requested_by}</Table.Td>
              <Table.Td visibleFrom="sm">
                <span className={`figures ${classes.when ?? ""}`} title={dateTime(operation.requested_at)}>
                  {ago(operation.requested_at, now)}
                </span>
              </Table.Td>
              <Table.Td ta="right" className={`figures ${classes.when ?? ""}`} visibleFrom="xs">
                {operation.started_at === null ? "–" : elapsed(secondsTaken(operation, now))}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}
