import { Anchor, Button, Group, Progress, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { Change, secondsTaken } from "@/components/operation";
import { OperationPreviewView } from "@/components/operation-preview";
import { OperationSteps } from "@/components/operation-steps";
import { OperationStatus } from "@/components/status";
import { OperationState, UserRole, type OperationTargetView, type OperationView } from "@/generated/contracts";
import { dateTime, elapsed } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useOperations, useServerNow } from "@/live/hooks";
import { OperateDialog } from "@/operate/operate-dialog";
import { KIND_LABEL } from "./kinds";
import classes from "./operations.module.css";

/** The whole record of one operation, and what can be done about it. */
export function OperationDetail({ operation }: { readonly operation: OperationView }) {
  const now = useServerNow();
  const isOpen = operation.finished_at === null;
  return (
    <Stack gap="lg" data-testid="operation-detail" data-state={operation.state}>
      <Group justify="space-between" align="flex-start" gap="sm" wrap="nowrap">
        <div>
          <Title order={2}>{operation.title}</Title>
          <Group gap="md" mt={4}>
            <OperationStatus state={operation.state} />
            <Text size="sm" fw={550}>
              <Change operation={operation} />
            </Text>
          </Group>
        </div>
        <Actions operation={operation} />
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
        <dt>Kind</dt>
        <dd>{KIND_LABEL[operation.kind]}</dd>
        <dt>Works on</dt>
        <dd>
          {operation.targets.length === 0
            ? operation.target || "Nothing of its own"
            : operation.targets.map((target) => <TargetLink key={target.kind + target.id} target={target} />)}
        </dd>
        <dt>Requested by</dt>
        <dd>{operation.requested_by}</dd>
        <dt>Reason</dt>
        <dd>{operation.reason || "None given"}</dd>
        <dt>Asked for</dt>
        <dd className="figures">{dateTime(operation.requested_at)}</dd>
        <dt>Started</dt>
        <dd className="figures">
          {operation.started_at === null ? (isOpen ? "Not yet" : "Never") : dateTime(operation.started_at)}
        </dd>
        {operation.started_at !== null && (
          <>
            <dt>{isOpen ? "Running for" : "Took"}</dt>
            <dd className="figures">{elapsed(secondsTaken(operation, now))}</dd>
          </>
        )}
        <Others label="Waits for" ids={operation.queued_behind} />
        <Others label="Tries again" ids={operation.retry_of === null ? [] : [operation.retry_of]} />
      </dl>
      <div>
        <Title order={3} mb="xs">
          Steps
        </Title>
        <OperationSteps steps={operation.steps} />
      </div>
      {operation.preview !== null && (
        <div>
          <Title order={3} mb="xs">
            {isOpen ? "What it is to do" : "What it was to do"}
          </Title>
          <OperationPreviewView preview={operation.preview} />
        </div>
      )}
    </Stack>
  );
}

function TargetLink({ target }: { readonly target: OperationTargetView }) {
  if (target.href === "") return <span>{target.name} </span>;
  return (
    <Anchor component={Link} to={target.href} size="sm">
      {target.name}
    </Anchor>
  );
}

function Others({ label, ids }: { readonly label: string; readonly ids: readonly string[] }) {
  const known = useOperations();
  if (ids.length === 0) return null;
  return (
    <>
      <dt>{label}</dt>
      <dd>
        {ids.map((id) => (
          <Anchor key={id} component={Link} to={`/operations/${id}`} size="sm">
            {known.find((one) => one.id === id)?.title ?? `Operation ${id.slice(0, 8)}`}
          </Anchor>
        ))}
      </dd>
    </>
  );
}

function Actions({ operation }: { readonly operation: OperationView }) {
  const [doing, setDoing] = useState<"cancel" | "retry" | null>(null);
  const deployment = operation.targets.find((target) => target.kind === "deployment" || target.kind === "pool");
  const mayHere = useMay(UserRole.OPERATOR, deployment === undefined ? null : deploymentOf(deployment));
  if (!mayHere || !(operation.cancellable || operation.retryable)) return null;
  const path = `/operations/${operation.id}`;
  const close = (): void => setDoing(null);
  return (
    <Group gap="xs">
      {operation.retryable && (
        <Button variant="default" onClick={() => setDoing("retry")}>
          Retry
        </Button>
      )}
      {operation.cancellable && (
        <Button variant="default" color="red" onClick={() => setDoing("cancel")}>
          Cancel
        </Button>
      )}
      <OperateDialog
        opened={doing === "cancel"}
        onClose={close}
        title="Cancel this operation"
        ask={{ method: "POST", path: `${path}/cancel` }}
        confirm="Cancel the operation"
        keepLabel="Let it go on"
        refused="It was not cancelled"
        isDangerous
        canQueue={false}
        testId="cancel-dialog"
      >
        <Text size="sm">
          {operation.state === OperationState.QUEUED
            ? "It leaves the queue without having done anything."
            : "What was wanted before is wanted again. What it has done already is taken back step by step."}
        </Text>
      </OperateDialog>
      <OperateDialog
        opened={doing === "retry"}
        onClose={close}
        title="Try it again"
        ask={{ method: "POST", path: `${path}/retry` }}
        confirm="Try again"
        refused="It was not tried again"
        hasPreview
        testId="retry-dialog"
      >
        <Text size="sm">A new operation with the same request begins; this one stays as it is, for the record.</Text>
      </OperateDialog>
    </Group>
  );
}

/** Pools are named "<deployment>/<role>". */
function deploymentOf({ kind, name }: OperationTargetView): string {
  return kind === "pool" ? name.slice(0, name.lastIndexOf("/")) : name;
}
