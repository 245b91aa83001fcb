import { ActionIcon, Group, Menu, Text, Tooltip } from "@mantine/core";
import { IconDots, IconFileText, IconRefresh, IconSwitchHorizontal } from "@tabler/icons-react";
import { useState } from "react";
import { WorkerPhase, type DeploymentView, type WorkerView } from "@/generated/contracts";
import { Meter } from "@/components/meter";
import { WorkerStatus } from "@/components/status";
import { ago, count, elapsed, percent, plural, UNKNOWN } from "@/lib/format";
import { ROLE_LABEL, ROLE_STAGE, stageColor } from "@/lib/stages";
import { useServerNow } from "@/live/hooks";
import classes from "./pools.module.css";
import { useCountdown } from "@/live/use-countdown";
import { OTHER_ROLE, WorkerActionDialog, type WorkerAction } from "./worker-actions";

interface WorkerRowProps {
  readonly worker: WorkerView;
  readonly deployment: DeploymentView;
  /** Whether what runs may be changed. */
  readonly mayChange: boolean;
  readonly onOpen: (workerId: string) => void;
}

export function WorkerRow(props: WorkerRowProps) {
  const { worker, deployment } = props;
  const share = kvShare(worker);
  return (
    <li className={classes.worker} data-testid="worker-row" data-worker={worker.name} data-phase={worker.phase}>
      <div className={classes.workerHead}>
        <WorkerStatus phase={worker.phase} />
        <Text fw={550} size="sm" truncate>
          {worker.name}
          {deployment.rollout !== null && <span className={classes.revisionTag}> rev. {worker.revision}</span>}
        </Text>
        <Text size="xs" c="dimmed" truncate>
          {worker.node_name} · {worker.device_ids.join(", ") || "no device"}
        </Text>
      </div>
      <div className={classes.workerLoad}>
        <Tooltip label={`${count(worker.running)} running, ${count(worker.waiting)} waiting`}>
          <Text size="sm" className="figures" tabIndex={0}>
            <span data-testid="worker-running">{worker.running ?? UNKNOWN}</span>
            <Text span size="xs" c="dimmed">
              {" "}
              running{worker.waiting !== null && worker.waiting > 0 ? `, ${worker.waiting} waiting` : ""}
            </Text>
          </Text>
        </Tooltip>
        <div className={classes.kv}>
          <Text size="xs" c="dimmed" className="figures">
            KV {percent(share)}
          </Text>
          <Meter
            label={`KV cache of ${worker.name}`}
            share={share}
            color={stageColor(ROLE_STAGE[worker.role])}
            warnAt={0.9}
          />
        </div>
      </div>
      <WorkerMenu {...props} />
      <WorkerNote worker={worker} />
    </li>
  );
}

function kvShare(worker: WorkerView): number | null {
  const { kv_blocks_used: used, kv_blocks_total: blocks } = worker;
  return used === null || blocks === null || blocks === 0 ? null : used / blocks;
}

/** Under the row: what it waits for, why it is where it is. Nothing while all is well. */
function WorkerNote({ worker }: { readonly worker: WorkerView }) {
  const nextStart = useCountdown(worker.next_start_s);
  const drainLeft = useCountdown(worker.drain_left_s);
  const other = worker.observed_role !== null && worker.observed_role !== worker.role ? worker.observed_role : null;
  const notes = [
    other === null ? null : `Still a ${ROLE_LABEL[other].toLowerCase()} worker.`,
    nextStart === null ? null : `Starts again in ${elapsed(nextStart)} (start ${worker.attempts + 1}).`,
    drainLeft === null ? null : `${busyWith(worker)} Stopped in ${elapsed(drainLeft)} at the latest.`,
    worker.reason === "" ? null : worker.reason,
  ].filter((note) => note !== null);
  if (notes.length === 0) return null;
  const bad = worker.phase === WorkerPhase.FAILED || worker.phase === WorkerPhase.BACKOFF;
  return (
    <Text size="xs" c={bad ? "var(--bad)" : "dimmed"} className={`figures ${classes.workerNote ?? ""}`}>
      {notes.join(" ")}
    </Text>
  );
}

function busyWith(worker: WorkerView): string {
  const answers = worker.running === null ? null : plural(worker.running, "request");
  const handoffs = worker.handoffs === null || worker.handoffs === 0 ? null : plural(worker.handoffs, "hand-off");
  const left = [answers, handoffs].filter((part) => part !== null);
  return left.length === 0 ? "Finishing what it has." : `${left.join(" and ")} left to finish.`;
}

function WorkerMenu({ worker, deployment, mayChange, onOpen }: WorkerRowProps) {
  const [action, setAction] = useState<WorkerAction | null>(null);
  const now = useServerNow(5000);
  const other = OTHER_ROLE[worker.role];
  const isDown = worker.phase === WorkerPhase.FAILED || worker.phase === WorkerPhase.BACKOFF;
  const isChangeable = mayChange && !deployment.deleting;
  return (
    <Group gap={2} wrap="nowrap" className={classes.workerMenu ?? ""}>
      {isDown && isChangeable && (
        <Tooltip label="Start it again now">
          <ActionIcon onClick={() => setAction("restart")} aria-label={`Restart ${worker.name}`}>
            <IconRefresh size={16} />
          </ActionIcon>
        </Tooltip>
      )}
      <Menu position="bottom-end" width={240}>
        <Menu.Target>
          <ActionIcon aria-label={`More about ${worker.name}`}>
            <IconDots size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            {worker.phase} since {ago(worker.phase_since, now)}
          </Menu.Label>
          <Menu.Item leftSection={<IconFileText size={16} />} onClick={() => onOpen(worker.id)}>
            Log and details
          </Menu.Item>
          {isChangeable && other !== null && (
            <Menu.Item leftSection={<IconSwitchHorizontal size={16} />} onClick={() => setAction("flip")}>
              Flip to {other}
            </Menu.Item>
          )}
          {isChangeable && (
            <Menu.Item leftSection={<IconRefresh size={16} />} onClick={() => setAction("restart")}>
              Restart
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <WorkerActionDialog
        action={action}
        worker={worker}
        canFlip={deployment.can_flip}
        onClose={() => setAction(null)}
      />
    </Group>
  );
}
