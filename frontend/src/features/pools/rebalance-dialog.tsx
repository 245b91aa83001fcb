import { ActionIcon, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconMinus, IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { RoleMark } from "@/components/role-mark";
import type { DeploymentView, PoolView } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { Moved } from "@/operate/moved";
import { OperateDialog } from "@/operate/operate-dialog";
import classes from "./pools.module.css";
import { beginRebalance, isChanged, isOutdated, shifted, type Pair, type RebalanceDraft } from "./rebalance-draft";

interface RebalanceDialogProps {
  readonly deployment: DeploymentView;
  readonly pools: Pair;
  readonly onClose: () => void;
}

/** Trades prefill workers for decode workers within the same devices. Mounted while it is open. */
export function RebalanceDialog({ deployment, pools, onClose }: RebalanceDialogProps) {
  const [now, setDraft] = useState<RebalanceDraft>(() => beginRebalance(pools));
  const [settled] = useDebouncedValue(now, 250);
  const outdated = isOutdated(now, pools);
  const { prefill, decode, seen } = settled;
  return (
    <OperateDialog
      opened
      onClose={onClose}
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
        <Moved
          title="Someone changed a pool meanwhile"
          action="Start from what it is now"
          onReview={() => setDraft(beginRebalance(pools))}
        >
          You started from {seen.prefill.replicas} : {seen.decode.replicas}; it is {pools.prefill.replicas} :{" "}
          {pools.decode.replicas} now.
        </Moved>
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
