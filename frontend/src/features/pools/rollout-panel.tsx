import { Anchor, Button, Group, Progress, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconArrowBackUp, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { Status } from "@/components/status";
import type { DeploymentView, RolloutView } from "@/generated/contracts";
import { messageOf } from "@/lib/api";
import { count, percent, UNKNOWN } from "@/lib/format";
import { useOperate } from "@/operate/use-operate";
import classes from "./pools.module.css";
import { RollBackDialog } from "./roll-back-dialog";

interface RolloutPanelProps {
  readonly deployment: DeploymentView;
  readonly rollout: RolloutView;
  readonly mayChange: boolean;
}

/** A roll-out under way: how far it is, how the candidate does, and what can be done about it. */
export function RolloutPanel({ deployment, rollout, mayChange }: RolloutPanelProps) {
  const { stable, candidate, share, wanted, ready, total, paused } = rollout;
  const note = deployment.revisions.find((revision) => revision.number === candidate)?.note ?? "";
  return (
    <div className={classes.rollout} data-testid="rollout" data-paused={paused || undefined}>
      <Group justify="space-between" gap="sm">
        <div>
          <Group gap="sm">
            <Text fw={600} size="sm">
              Rolling out revision {candidate} over {stable}
            </Text>
            {paused ? (
              <Status tone="warn">Paused</Status>
            ) : (
              <Status tone="busy" moving>
                Under way
              </Status>
            )}
          </Group>
          {note !== "" && (
            <Text size="sm" c="dimmed">
              {note}
            </Text>
          )}
        </div>
        {mayChange && <Actions deployment={deployment} rollout={rollout} />}
      </Group>
      <Progress.Root size={6} aria-label="Workers of the candidate">
        <Progress.Section value={total === 0 ? 0 : (100 * ready) / total} color="var(--good)" aria-label="Ready" />
        <Progress.Section
          value={total === 0 ? 0 : (100 * Math.max(0, wanted - ready)) / total}
          color="var(--neutral-3)"
          aria-label="Wanted"
        />
      </Progress.Root>
      <dl className={classes.rolloutFacts}>
        <Fact term="Share" value={percent(share)} />
        <Fact term="Candidate ready" value={`${ready} of ${wanted} (${total} in all)`} />
        <Fact term="Answered by it" value={count(rollout.requests)} />
        <Fact term="Errors" value={exactly(rollout.error_rate)} />
        <Fact term="SLO misses" value={exactly(rollout.slo_miss_rate)} />
        <Fact
          term="Steps"
          value={
            <Anchor component={Link} to={`/operations/${rollout.operation_id}`} size="sm">
              The operation
            </Anchor>
          }
        />
      </dl>
    </div>
  );
}

function Fact({ term, value }: { readonly term: string; readonly value: React.ReactNode }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd className="figures">{value}</dd>
    </div>
  );
}

/** Rates matter below one percent, too. */
function exactly(share: number | null): string {
  return share === null ? UNKNOWN : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

function Actions({ deployment, rollout }: Omit<RolloutPanelProps, "mayChange">) {
  const [goingBack, setGoingBack] = useState(false);
  const operate = useOperate();
  const verb = rollout.paused ? "resume" : "pause";
  const turn = (): void =>
    operate.mutate(
      { ask: { method: "POST", path: `/deployments/${encodeURIComponent(deployment.name)}/rollout/${verb}` } },
      {
        onError: (error) =>
          notifications.show({ color: "red", title: `The roll-out did not ${verb}`, message: messageOf(error) }),
      },
    );
  return (
    <Group gap="xs">
      <Button
        size="xs"
        variant="default"
        leftSection={rollout.paused ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
        loading={operate.isPending}
        onClick={turn}
      >
        {rollout.paused ? "Resume" : "Pause"}
      </Button>
      <Button
        size="xs"
        variant="default"
        leftSection={<IconArrowBackUp size={14} />}
        onClick={() => setGoingBack(true)}
      >
        Roll back
      </Button>
      <RollBackDialog
        to={goingBack ? rollout.stable : null}
        deployment={deployment}
        onClose={() => setGoingBack(false)}
      />
    </Group>
  );
}
