import { ActionIcon, Group, Menu, Text, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconDots, IconFileText, IconRefresh } from "@tabler/icons-react";
import { WorkerPhase, type WorkerView } from "@/generated/contracts";
import { Meter } from "@/components/meter";
import { WorkerStatus } from "@/components/status";
import { messageOf } from "@/lib/api";
import { ago, count, elapsed, percent, plural, UNKNOWN } from "@/lib/format";
import { ROLE_STAGE, stageColor } from "@/lib/stages";
import { useServerNow } from "@/live/hooks";
import { useRestartWorker } from "./api/restart-worker";
import classes from "./pools.module.css";
import { useCountdown } from "./use-countdown";

interface WorkerRowProps {
  readonly worker: WorkerView;
  readonly onShowLog: (workerId: string) => void;
}

export function WorkerRow({ worker, onShowLog }: WorkerRowProps) {
  const share = kvShare(worker);
  return (
    <li className={classes.worker} data-testid="worker-row" data-worker={worker.name} data-phase={worker.phase}>
      <div className={classes.workerHead}>
        <WorkerStatus phase={worker.phase} />
        <Text fw={550} size="sm" truncate>
          {worker.name}
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
      <WorkerMenu worker={worker} onShowLog={onShowLog} />
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
  const notes = [
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

function WorkerMenu({ worker, onShowLog }: WorkerRowProps) {
  const restart = useRestartWorker();
  const now = useServerNow(5000);
  const down = worker.phase === WorkerPhase.FAILED || worker.phase === WorkerPhase.BACKOFF;
  const again = (): void =>
    restart.mutate(worker.id, {
      onSuccess: () => notifications.show({ message: `${worker.name} is being started again.` }),
      onError: (error) =>
        notifications.show({ color: "red", title: `${worker.name} was not restarted`, message: messageOf(error) }),
    });
  return (
    <Group gap={2} wrap="nowrap" className={classes.workerMenu ?? ""}>
      {down && (
        <Tooltip label="Start it again now">
          <ActionIcon onClick={again} loading={restart.isPending} aria-label={`Restart ${worker.name}`}>
            <IconRefresh size={16} />
          </ActionIcon>
        </Tooltip>
      )}
      <Menu position="bottom-end" width={220}>
        <Menu.Target>
          <ActionIcon aria-label={`More about ${worker.name}`}>
            <IconDots size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            {worker.phase} since {ago(worker.phase_since, now)}
          </Menu.Label>
          <Menu.Item leftSection={<IconFileText size={16} />} onClick={() => onShowLog(worker.id)}>
            Last log lines
          </Menu.Item>
          {down && (
            <Menu.Item leftSection={<IconRefresh size={16} />} onClick={again}>
              Start it again now
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}
