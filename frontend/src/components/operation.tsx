import { Anchor, Collapse, Group, Progress, Text, UnstyledButton } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconChevronRight } from "@tabler/icons-react";
import { Link } from "react-router";
import { OperationKind, OperationState, type OperationView } from "@/generated/contracts";
import { elapsed } from "@/lib/format";
import { OperationSteps } from "./operation-steps";
import { OperationStatus } from "./status";
import classes from "./operation.module.css";

/** What is changing: "1 replica → 2 replicas". Nothing where the title says it already. */
export function Change({ operation }: { readonly operation: OperationView }) {
  if (operation.before === "" && operation.after === "") return null;
  if (operation.after !== "" && operation.title.includes(operation.after)) return null;
  return (
    <span className="figures">
      {operation.before}
      {operation.before !== "" && operation.after !== "" && <span aria-label="to"> → </span>}
      {operation.after}
    </span>
  );
}

interface OperationProgressProps {
  readonly operation: OperationView;
  readonly nowMs: number;
}

/** One operation as it goes: state, change, progress, newest step or outcome; its steps on demand. */
export function OperationProgress({ operation, nowMs }: OperationProgressProps) {
  const [open, { toggle }] = useDisclosure(false);
  const running = operation.state === OperationState.RUNNING;
  const newest = operation.steps.at(-1)?.text ?? waiting(operation);
  return (
    <div className={classes.progress} data-testid="operation" data-state={operation.state} role="status">
      <Group justify="space-between" gap="xs" wrap="nowrap" align="flex-start">
        <Group gap="xs">
          <OperationStatus state={operation.state} />
          <Text size="sm" fw={550}>
            {operation.title}
          </Text>
          {operation.kind !== OperationKind.RESIZE && (
            <Text size="sm" c="dimmed" component="span">
              <Change operation={operation} />
            </Text>
          )}
        </Group>
        <Text size="xs" c="dimmed" className="figures" style={{ whiteSpace: "nowrap" }}>
          {elapsed(secondsTaken(operation, nowMs))}
        </Text>
      </Group>
      {running && (
        <Progress
          value={Math.max(3, operation.progress * 100)}
          size={4}
          mt={8}
          color="gray"
          aria-label={`${operation.title}: progress`}
        />
      )}
      <Group justify="space-between" mt={6} gap="xs">
        <Text size="sm" c={operation.state === OperationState.FAILED ? "var(--bad)" : "dimmed"}>
          {running ? newest : operation.outcome || newest}
        </Text>
        <Group gap="md">
          <UnstyledButton className={classes.toggle} onClick={toggle} aria-expanded={open}>
            <IconChevronRight size={14} className={classes.chevron} data-open={open || undefined} />
            {open ? "Hide steps" : `Steps (${operation.steps.length})`}
          </UnstyledButton>
          <Anchor component={Link} to={`/operations/${operation.id}`} size="sm" c="dimmed">
            Details
          </Anchor>
        </Group>
      </Group>
      <Collapse expanded={open}>
        <div className={classes.steps}>
          <OperationSteps steps={operation.steps} />
        </div>
      </Collapse>
    </div>
  );
}

function waiting({ state, queued_behind: behind }: OperationView): string {
  if (state !== OperationState.QUEUED) return "Waiting for the first step";
  return `Waits for ${behind.length === 1 ? "another operation" : "other operations"} to end`;
}

/** Seconds from start to end, or to `nowMs` while it is open; from its request while it has not started. */
export function secondsTaken(operation: OperationView, nowMs: number): number {
  const end = operation.finished_at === null ? nowMs : Date.parse(operation.finished_at);
  return (end - Date.parse(operation.started_at ?? operation.requested_at)) / 1000;
}
