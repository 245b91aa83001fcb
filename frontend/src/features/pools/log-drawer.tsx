import { Drawer, Group, Stack, Text } from "@mantine/core";
import { CopyIcon } from "@/components/copy";
import { WorkerStatus } from "@/components/status";
import { findWorker, useDeployments } from "@/live/hooks";
import classes from "./pools.module.css";

interface LogDrawerProps {
  readonly workerId: string | null;
  readonly onClose: () => void;
}

/** The last log lines of one worker, as its node last reported them; follows along. */
export function LogDrawer({ workerId, onClose }: LogDrawerProps) {
  const deployments = useDeployments();
  const worker = workerId === null ? null : (findWorker(deployments, workerId)?.worker ?? null);
  return (
    <Drawer
      opened={workerId !== null}
      onClose={onClose}
      size="xl"
      title={worker === null ? "Worker log" : `Log of ${worker.name}`}
      data-testid="log-drawer"
    >
      {worker === null ? (
        <Text size="sm" c="dimmed">
          This worker is gone, and its log with it.
        </Text>
      ) : (
        <Stack gap="sm">
          <Group justify="space-between">
            <Group gap="sm">
              <WorkerStatus phase={worker.phase} />
              <Text size="sm" c="dimmed">
                {worker.node_name}
              </Text>
            </Group>
            <CopyIcon value={worker.log_tail.join("\n")} label="Copy the log" />
          </Group>
          {worker.reason !== "" && <Text size="sm">{worker.reason}</Text>}
          {worker.log_tail.length === 0 ? (
            <Text size="sm" c="dimmed">
              Its node has reported no log lines yet.
            </Text>
          ) : (
            <pre className={classes.log} tabIndex={0}>
              {worker.log_tail.join("\n")}
            </pre>
          )}
        </Stack>
      )}
    </Drawer>
  );
}
