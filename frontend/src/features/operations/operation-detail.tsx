import { Group, Progress, Stack, Text, Title } from "@mantine/core";
import { OperationState, type OperationView } from "@/generated/contracts";
import { Change, OperationSteps, secondsTaken } from "@/components/operation";
import { OperationStatus } from "@/components/status";
import { dateTime, elapsed } from "@/lib/format";
import { useServerNow } from "@/live/hooks";
import classes from "./operations.module.css";

/** The whole record of one operation. */
export function OperationDetail({ operation }: { readonly operation: OperationView }) {
  const now = useServerNow();
  return (
    <Stack gap="md" data-testid="operation-detail" data-state={operation.state}>
      <div>
        <Title order={2}>{operation.title}</Title>
        <Text size="sm" c="dimmed">
          {operation.target}
        </Text>
      </div>
      <Group gap="md">
        <OperationStatus state={operation.state} />
        <Text size="sm" fw={550}>
          <Change operation={operation} />
        </Text>
      </Group>
      {operation.state === OperationState.RUNNING && (
        <Progress value={Math.max(3, operation.progress * 100)} size={4} color="gray" aria-label="Progress" />
      )}
      {operation.outcome !== "" && (
        <Text size="sm" c={operation.state === OperationState.FAILED ? "var(--bad)" : undefined}>
          {operation.outcome}
        </Text>
      )}
      <dl className={classes.facts}>
        <dt>Requested by</dt>
        <dd>{operation.requested_by}</dd>
        <dt>Reason</dt>
        <dd>{operation.reason || "None given"}</dd>
        <dt>Started</dt>
        <dd className="figures">{operation.started_at === null ? "Not yet" : dateTime(operation.started_at)}</dd>
        <dt>{operation.finished_at === null ? "Running for" : "Took"}</dt>
        <dd className="figures">{elapsed(secondsTaken(operation, now))}</dd>
      </dl>
      <OperationSteps operation={operation} />
    </Stack>
  );
}
