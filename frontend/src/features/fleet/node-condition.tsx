import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle, IconBan, IconDroplet, IconPlugX } from "@tabler/icons-react";
import { NodeDesired, NodePhase, type NodeView } from "@/generated/contracts";
import { elapsed, plural } from "@/lib/format";
import type { PlacedWorker } from "@/live/hooks";
import { leavingOf } from "./node-states";
import { useCountdown } from "@/live/use-countdown";

interface NodeConditionProps {
  readonly node: NodeView;
  readonly workers: readonly PlacedWorker[];
}

/** What is not as usual with a node, and what an operator should see to. */
export function NodeCondition({ node, workers }: NodeConditionProps) {
  const why = node.cordon_reason === "" ? null : `“${node.cordon_reason}”`;
  return (
    <>
      {node.phase === NodePhase.LOST && node.desired !== NodeDesired.RETIRED && (
        <Alert color="red" icon={<IconPlugX />} title="This node has gone silent">
          Nothing is known of its workers, and no request is sent to them. It comes back by itself once its agent
          reports.
        </Alert>
      )}
      {node.desired === NodeDesired.CORDONED && (
        <Alert color="yellow" icon={<IconBan />} title="Cordoned: it is given nothing new">
          {why ?? "No reason was given."}
        </Alert>
      )}
      {node.desired === NodeDesired.DRAINING && (
        <Alert color="yellow" icon={<IconDroplet />} title="Draining" data-testid="draining">
          {why !== null && <Text size="sm">{why}</Text>}
          <Draining workers={workers} />
        </Alert>
      )}
      {node.warnings.length > 0 && (
        <Alert color="yellow" icon={<IconAlertTriangle />} title="Worth seeing to">
          {node.warnings.map((warning) => (
            <Text key={warning} size="sm">
              {warning}
            </Text>
          ))}
        </Alert>
      )}
    </>
  );
}

function Draining({ workers }: { readonly workers: readonly PlacedWorker[] }) {
  const leaving = leavingOf(workers);
  const left = useCountdown(leaving.left_s);
  if (leaving.workers === 0) return <Text size="sm">No worker is left here.</Text>;
  const has = [
    leaving.running === null ? null : plural(leaving.running, "request"),
    leaving.handoffs === null ? null : plural(leaving.handoffs, "hand-off"),
  ].filter((part) => part !== null);
  return (
    <Text size="sm" className="figures">
      {plural(leaving.workers, "worker")} left
      {has.length > 0 && `, with ${has.join(" and ")} to finish`}.
      {left !== null && ` The last is stopped in ${elapsed(left)} at the latest.`}
    </Text>
  );
}
