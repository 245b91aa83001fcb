import { Badge, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { NodeDesired, NodePhase, type DeploymentView, type NodeView } from "@/generated/contracts";
import { CopyIcon } from "@/components/copy";
import { Meter } from "@/components/meter";
import { NodeDesiredMark, NodeStatus } from "@/components/status";
import { ago, bytes, dateTime, plural, UNKNOWN } from "@/lib/format";
import { useMay } from "@/lib/who";
import { findWorker, useServerNow } from "@/live/hooks";
import { DeviceTile } from "./device-tile";
import classes from "./fleet.module.css";
import { NodeMenu } from "./node-actions";
import { NodeCondition } from "./node-condition";
import { NodeFacts } from "./node-facts";
import { workersOn } from "./node-states";

interface NodeCardProps {
  readonly node: NodeView;
  readonly deployments: readonly DeploymentView[];
}

export function NodeCard({ node, deployments }: NodeCardProps) {
  const now = useServerNow();
  const memory = node.memory_total === null || node.memory_used === null ? null : node.memory_used / node.memory_total;
  const mayChange = useMay();
  const behind = node.generation - node.observed_generation;
  return (
    <Paper
      component="section"
      p="md"
      aria-label={`Node ${node.name}`}
      data-testid="node"
      data-node={node.name}
      data-desired={node.desired}
    >
      <div className={classes.nodeHead}>
        <div>
          <Group gap="sm">
            <Title order={2}>{node.name}</Title>
            {node.desired !== NodeDesired.RETIRED && <NodeStatus phase={node.phase} />}
            <NodeDesiredMark desired={node.desired} />
            {node.labels.map((label) => (
              <Badge key={label} color="gray" tt="none" fw={500}>
                {label}
              </Badge>
            ))}
          </Group>
          <Text size="sm" c="dimmed" className="figures">
            {[node.hostname === node.name ? null : node.hostname, node.address, `agent ${node.agent_version}`]
              .filter((part) => part !== null)
              .join(" · ")}
            <CopyIcon value={node.address} label="Copy the address" />
          </Text>
        </div>
        <div className={classes.nodeSide}>
          <dl className={classes.nodeFacts}>
            <div>
              <dt>Processor</dt>
              <dd className="figures">{node.cpu_cores === null ? UNKNOWN : plural(node.cpu_cores, "core")}</dd>
            </div>
            <div className={classes.nodeMemory}>
              <dt>Memory</dt>
              <dd className="figures">
                {node.memory_total === null ? UNKNOWN : `${bytes(node.memory_used)} of ${bytes(node.memory_total)}`}
                <Meter label={`Memory of ${node.name}`} share={memory} />
              </dd>
            </div>
            <div>
              <dt>Last report</dt>
              <dd className="figures" title={`Joined ${dateTime(node.joined_at)}`}>
                {ago(node.last_report_at, now)}
              </dd>
            </div>
          </dl>
          {mayChange && <NodeMenu node={node} />}
        </div>
      </div>
      <Stack gap="xs" mb="sm">
        <NodeCondition node={node} workers={workersOn(node, deployments)} />
      </Stack>
      {behind > 0 && node.phase === NodePhase.READY && (
        <Text size="sm" c="dimmed" mb="sm">
          It has not yet taken up its newest orders ({behind} behind).
        </Text>
      )}
      {node.devices.length === 0 ? (
        <Text size="sm" c="dimmed">
          No devices reported: no worker can be placed here.
        </Text>
      ) : (
        <div className={classes.devices}>
          {node.devices.map((device) => (
            <DeviceTile
              key={device.device_id}
              device={device}
              node={node.name}
              mayChange={mayChange && node.desired !== NodeDesired.RETIRED}
              holder={device.worker_id === null ? null : findWorker(deployments, device.worker_id)}
            />
          ))}
        </div>
      )}
      <NodeFacts node={node} />
    </Paper>
  );
}
