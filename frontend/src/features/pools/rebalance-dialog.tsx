import { ActionIcon, Alert, Button, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconMinus, IconPlus, IconUsers } from "@tabler/icons-react";
import { useState } from "react";
import { RoleMark } from "@/components/role-mark";
import type { DeploymentView, PoolView } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { OperateDialog } from "@/operate/operate-dialog";
import classes from "./pools.module.css";
import { beginRebalance, isChanged, isOutdated, shifted, type Pair, type RebalanceDraft } from "./rebalance-draft";

interface RebalanceDialogProps {
  readonly opened: boolean;
  readonly deployment: DeploymentView;
  readonly pools: Pair;
  readonly onClose: () => void;
}

/** Trades prefill workers for decode workers within the same devices. */
export function RebalanceDialog({ opened, deployment, pools, onClose }: RebalanceDialogProps) {
  const [draft, setDraft] = useState<RebalanceDraft | null>(null);
  const now = draft ?? beginRebalance(pools);
  const [settled] = useDebouncedValue(now, 250);
  const outdated = isOutdated(now, pools);
  const close = (): void => {
    setDraft(null);
    onClose();
  };
  const { prefill, decode, seen } = settled;
  return (
    <OperateDialog
      opened={opened}
      onClose={close}
      title={`Rebalance ${deployment.name}`}
      ask={{
        method: "POST",
        path: `/deployments/${encodeURIComponent(deployment.name)}/rebalance`,
        body: {
          prefill,
          decode,
          prefill_generation: seen.prefill.generation,
          decode_generation: seen.decode.generation,
        },
      }}
      confirm={`Rebalance to ${now.prefill} : ${now.decode}`}
      refused="The pools were not rebalanced"
      hasPreview
      disabled={!isChanged(now) || outdated || settled.prefill !== now.prefill}
      testId="rebalance-dialog"
    >
      <div className={classes.rebalance}>
        <Side pool={seen.prefill} draft={now} onShift={(by) => setDraft(shifted(now, by))} />
        <Side pool={seen.decode} draft={now} onShift={(by) => setDraft(shifted(now, -by))} />
      </div>
      <Text size="sm" c="dimmed">
        {plural(now.prefill + now.decode, "worker")} in all, as before.{" "}
        {deployment.can_flip
          ? "Workers change over in seconds with their weights loaded."
          : "This engine can't change roles while it runs: workers start anew on the same devices."}
      </Text>
      {outdated && (
        <Alert color="yellow" icon={<IconUsers />} title="Someone changed a pool meanwhile">
          <Text size="sm">
            You started from {seen.prefill.replicas} : {seen.decode.replicas}; it is {pools.prefill.replicas} :{" "}
            {pools.decode.replicas} now.
          </Text>
          <Button mt="sm" size="xs" variant="default" onClick={() => setDraft(beginRebalance(pools))}>
            Start from what it is now
          </Button>
        </Alert>
      )}
    </OperateDialog>
  );
}

interface SideProps {
  readonly pool: PoolView;
  readonly draft: RebalanceDraft;
  readonly onShift: (by: number) => void;
}

function Side({ pool, draft, onShift }: SideProps) {
  const value = pool.role === draft.seen.prefill.role ? draft.prefill : draft.decode;
  const up = pool.role === draft.seen.prefill.role ? 1 : -1;
  return (
    <div className={classes.side}>
      <RoleMark role={pool.role} />
      <div className={classes.stepper}>
        <ActionIcon
          variant="default"
          size="lg"
          aria-label={`One ${pool.role} worker fewer`}
          disabled={shifted(draft, -up) === draft}
          onClick={() => onShift(-1)}
        >
          <IconMinus size={16} />
        </ActionIcon>
        <span className={`figures ${classes.sideFigure ?? ""}`} data-testid={`rebalance-${pool.role}`}>
          {value}
        </span>
        <ActionIcon
          variant="default"
          size="lg"
          aria-label={`One ${pool.role} worker more`}
          disabled={shifted(draft, up) === draft}
          onClick={() => onShift(1)}
        >
          <IconPlus size={16} />
        </ActionIcon>
      </div>
      <Text size="xs" c="dimmed" className="figures">
        {value === pool.replicas ? "as now" : `${pool.replicas} now`}
      </Text>
    </div>
  );
}
