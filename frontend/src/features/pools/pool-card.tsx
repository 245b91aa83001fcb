import { ActionIcon, Alert, Group, Paper, Stack, Text, Tooltip } from "@mantine/core";
import { IconAdjustments, IconAlertTriangle } from "@tabler/icons-react";
import { useState } from "react";
import type { DeploymentView, PoolView } from "@/generated/contracts";
import { RoleMark } from "@/components/role-mark";
import { ROLE_MEANING, ROLE_STAGE, stageColor } from "@/lib/stages";
import { PoolLatency } from "./pool-latency";
import { PoolSettingsDialog } from "./pool-settings-dialog";
import classes from "./pools.module.css";
import { ResizeControl } from "./resize-control";
import type { Slots } from "./slots";
import { WorkerRow } from "./worker-row";

interface PoolCardProps {
  readonly pool: PoolView;
  readonly slots: readonly Slots[];
  readonly deployment: DeploymentView;
  /** Whether what runs may be changed. */
  readonly mayChange: boolean;
  readonly onOpenWorker: (workerId: string) => void;
}

/** One pool: how many are ready of how many, the control to change that, and its workers. */
export function PoolCard({ pool, slots, deployment, mayChange, onOpenWorker }: PoolCardProps) {
  const [changing, setChanging] = useState(false);
  const short = pool.ready < pool.replicas;
  return (
    <Paper
      component="section"
      aria-label={`${pool.role} pool of ${pool.deployment}`}
      data-testid={`pool-${pool.role}`}
      data-deployment={pool.deployment}
      className={classes.pool}
      style={{ borderTopColor: stageColor(ROLE_STAGE[pool.role]) }}
    >
      <div className={classes.poolHead}>
        <div>
          <RoleMark role={pool.role} />
          <Text size="xs" c="dimmed">
            {[ROLE_MEANING[pool.role], ...placement(pool)].join(" · ")}
          </Text>
        </div>
        <Group gap="xs" wrap="nowrap" align="flex-start">
          <Group gap={6} align="baseline" data-testid={`ready-${pool.role}`}>
            <span className={classes.ready} data-short={short || undefined}>
              {pool.ready}
            </span>
            <Text size="sm" c="dimmed" className="nowrap">
              of {pool.replicas} ready
            </Text>
          </Group>
          {mayChange && !deployment.deleting && (
            <Tooltip label="Limits and placement">
              <ActionIcon aria-label={`Limits and placement of ${pool.role}`} onClick={() => setChanging(true)}>
                <IconAdjustments size={16} />
              </ActionIcon>
            </Tooltip>
          )}
        </Group>
      </div>
      <Stack gap="sm">
        {mayChange && <ResizeControl pool={pool} slots={slots} disabled={deployment.deleting} />}
        <PoolLatency pool={pool} />
        {pool.refusals.length > 0 && (
          <Alert color="yellow" icon={<IconAlertTriangle />} title="Not all workers could be placed">
            {pool.refusals.map((refusal) => (
              <Text key={refusal} size="sm">
                {refusal}
              </Text>
            ))}
          </Alert>
        )}
        {pool.workers.length === 0 ? (
          <Text size="sm" c="dimmed" py="sm">
            {pool.replicas === 0
              ? "This pool has no workers. Raise its size to start one."
              : "Workers are about to be placed."}
          </Text>
        ) : (
          <ul className={classes.workers} aria-label={`${pool.role} workers`}>
            {pool.workers.map((worker) => (
              <WorkerRow
                key={worker.id}
                worker={worker}
                deployment={deployment}
                mayChange={mayChange}
                onOpen={onOpenWorker}
              />
            ))}
          </ul>
        )}
      </Stack>
      {changing && <PoolSettingsDialog pool={pool} onClose={() => setChanging(false)} />}
    </Paper>
  );
}

/** Where its workers may be, where that is not anywhere. */
function placement(pool: PoolView): readonly string[] {
  return [
    ...(pool.tensor_parallel > 1 ? [`${pool.tensor_parallel} devices each`] : []),
    ...(pool.labels.length > 0 ? [`only on ${pool.labels.join(", ")}`] : []),
    ...(pool.strategy === "pack" ? ["packed onto few nodes"] : []),
  ];
}
