import { Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { SideDrawer } from "@/components/side-drawer";
import { Status } from "@/components/status";
import type { DeploymentView, RevisionView } from "@/generated/contracts";
import { ago, dateTime } from "@/lib/format";
import { useServerNow } from "@/live/hooks";
import classes from "./pools.module.css";
import { RollBackDialog } from "./roll-back-dialog";
import { settingChanges } from "./roll-out-form";

interface RevisionsDrawerProps {
  readonly opened: boolean;
  readonly deployment: DeploymentView;
  readonly mayChange: boolean;
  readonly onClose: () => void;
}

/** What the deployment runs and ran: the newest first, each with what it changed. */
export function RevisionsDrawer({ opened, deployment, mayChange, onClose }: RevisionsDrawerProps) {
  const [to, setTo] = useState<number | null>(null);
  const oldestFirst = [...deployment.revisions].sort((a, b) => a.number - b.number);
  return (
    <SideDrawer
      opened={opened}
      onClose={onClose}
      title={`Revisions of ${deployment.name}`}
      size="lg"
      data-testid="revisions-drawer"
    >
      <Stack gap="sm">
        {oldestFirst
          .map((revision, at) => (
            <Revision
              key={revision.number}
              revision={revision}
              before={oldestFirst[at - 1] ?? null}
              deployment={deployment}
              {...(mayChange ? { onRollBack: () => setTo(revision.number) } : {})}
            />
          ))
          .reverse()}
      </Stack>
      <RollBackDialog to={to} deployment={deployment} onClose={() => setTo(null)} />
    </SideDrawer>
  );
}

interface RevisionProps {
  readonly revision: RevisionView;
  readonly before: RevisionView | null;
  readonly deployment: DeploymentView;
  readonly onRollBack?: () => void;
}

function Revision({ revision, before, deployment, onRollBack }: RevisionProps) {
  const now = useServerNow(30_000);
  const serves = revision.number === deployment.revision;
  const isCandidate = revision.number === deployment.rollout?.candidate;
  return (
    <div className={classes.rollout} data-testid="revision" data-revision={revision.number}>
      <Group justify="space-between" gap="sm" align="flex-start">
        <div>
          <Group gap="sm">
            <Text fw={600} size="sm">
              Revision {revision.number}
            </Text>
            {serves && <Status tone="good">Serves</Status>}
            {isCandidate && (
              <Status tone="busy" moving>
                Being rolled out
              </Status>
            )}
          </Group>
          <Text size="sm" c="dimmed" title={dateTime(revision.created_at)}>
            by {revision.created_by}, {ago(revision.created_at, now)}
          </Text>
        </div>
        {onRollBack && !serves && !isCandidate && (
          <Button size="xs" variant="default" onClick={onRollBack}>
            Roll back to it
          </Button>
        )}
      </Group>
      {revision.note !== "" && <Text size="sm">{revision.note}</Text>}
      <Text size="sm" className="mono">
        {changesOf(revision, before).map((line) => (
          <span key={line} style={{ display: "block" }}>
            {line}
          </span>
        ))}
      </Text>
    </div>
  );
}

function changesOf(revision: RevisionView, before: RevisionView | null): readonly string[] {
  const model = revision.model + (revision.model_revision === "" ? "" : `@${revision.model_revision}`);
  if (before === null) return [`model ${model}`];
  const was = before.model + (before.model_revision === "" ? "" : `@${before.model_revision}`);
  return [
    ...(model === was ? [] : [`model ${was} → ${model}`]),
    ...settingChanges(before.settings, revision.settings).map(
      (change) => `${change.name} ${change.before} → ${change.after}`,
    ),
  ];
}
