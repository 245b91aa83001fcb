import { Anchor, Button, Drawer, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { CopyIcon } from "@/components/copy";
import { RoleMark } from "@/components/role-mark";
import { Failure, Loading } from "@/components/states";
import { WorkerStatus } from "@/components/status";
import { LogRun, type WorkerView } from "@/generated/contracts";
import { bytes, count, dateTime } from "@/lib/format";
import { findWorker, useDeployments } from "@/live/hooks";
import { useWorkerLog } from "./api/worker-log";
import classes from "./pools.module.css";

interface WorkerDrawerProps {
  readonly workerId: string | null;
  readonly onClose: () => void;
}

/** One worker: where it runs, and what it wrote, in this run and in the one before. */
export function WorkerDrawer({ workerId, onClose }: WorkerDrawerProps) {
  const deployments = useDeployments();
  const placed = workerId === null ? null : findWorker(deployments, workerId);
  return (
    <Drawer
      opened={workerId !== null}
      onClose={onClose}
      size="xl"
      title={placed === null ? "Worker" : `${placed.pool.deployment} / ${placed.worker.name}`}
      data-testid="log-drawer"
    >
      {placed === null ? (
        <Text size="sm" c="dimmed">
          This worker is gone, and its log with it.
        </Text>
      ) : (
        <Stack gap="md">
          <Facts worker={placed.worker} />
          <Log worker={placed.worker} />
        </Stack>
      )}
    </Drawer>
  );
}

function Facts({ worker }: { readonly worker: WorkerView }) {
  return (
    <div>
      <Group gap="md">
        <WorkerStatus phase={worker.phase} />
        <RoleMark role={worker.role} />
      </Group>
      <Text size="sm" c="dimmed" mt={4}>
        <Anchor component={Link} to={`/fleet?node=${encodeURIComponent(worker.node_name)}`} size="sm" c="inherit">
          {worker.node_name}
        </Anchor>{" "}
        · {worker.device_ids.join(", ") || "no device"} · revision {worker.revision} · placed{" "}
        {dateTime(worker.created_at)}
      </Text>
      <Text size="sm" c="dimmed" className="figures" mt={4}>
        {load(worker)}
      </Text>
      {worker.reason !== "" && (
        <Text size="sm" mt={4}>
          {worker.reason}
        </Text>
      )}
    </div>
  );
}

function load(worker: WorkerView): string {
  if (worker.running === null) return "What it does is not known.";
  return [
    `${count(worker.running)} running`,
    `${count(worker.waiting)} waiting with ${count(worker.waiting_tokens)} tokens to read`,
    `KV blocks kept for ${count(worker.tickets)}`,
    `KV received ${bytes(worker.kv_bytes_received)}`,
    `sent ${bytes(worker.kv_bytes_sent)}`,
  ].join(" · ");
}

function Log({ worker }: { readonly worker: WorkerView }) {
  const [run, setRun] = useState<LogRun>(LogRun.CURRENT);
  const log = useWorkerLog(worker.id, run);
  const reported = run === LogRun.CURRENT ? worker.log_tail : [];
  const lines = log.data?.lines ?? (log.isError ? reported : null);
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="xs">
        <SegmentedControl
          aria-label="Run"
          data={[
            { value: LogRun.CURRENT, label: "This run" },
            { value: LogRun.PREVIOUS, label: "The run before" },
          ]}
          value={run}
          onChange={setRun}
        />
        <Group gap="xs">
          <Button
            variant="default"
            leftSection={<IconRefresh size={16} />}
            loading={log.isFetching}
            onClick={() => void log.refetch()}
          >
            Fetch again
          </Button>
          <CopyIcon value={(lines ?? []).join("\n")} label="Copy the log" />
        </Group>
      </Group>
      {log.isError && (
        <Failure
          error={log.error}
          title={reported.length > 0 ? "Its node can't be asked now; this is what it last reported" : "No log to show"}
        />
      )}
      {lines === null && <Loading rows={1} height={240} />}
      {lines !== null && lines.length > 0 && (
        <pre className={classes.log} tabIndex={0} aria-label="Log">
          {lines.join("\n")}
        </pre>
      )}
      {log.data?.lines.length === 0 && (
        <Text size="sm" c="dimmed">
          This run has written nothing yet.
        </Text>
      )}
    </Stack>
  );
}
