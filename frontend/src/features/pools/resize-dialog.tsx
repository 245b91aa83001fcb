import { Button, Modal, Skeleton, Stack, Text } from "@mantine/core";
import { IconArrowNarrowRight } from "@tabler/icons-react";
import { useState } from "react";
import type { PoolView } from "@/generated/contracts";
import { DialogButtons } from "@/components/dialog-buttons";
import { OperationPreviewView } from "@/components/operation-preview";
import { ReasonInput } from "@/components/reason-input";
import { RoleMark } from "@/components/role-mark";
import { Failure } from "@/components/states";
import { inTheWay, operationIn, type Ask } from "@/operate/ask";
import { Conflict } from "@/operate/conflict";
import { Moved } from "@/operate/moved";
import { useInSight } from "@/operate/use-in-sight";
import { useOperate, useTrial } from "@/operate/use-operate";
import classes from "./pools.module.css";
import { consequence, movedTo, rebase, type ResizeDraft } from "./resize-draft";
import { freeSlots, type Slots } from "./slots";
import { SlotsNote } from "./slots-note";

interface ResizeDialogProps {
  readonly opened: boolean;
  readonly pool: PoolView;
  readonly draft: ResizeDraft;
  readonly slots: readonly Slots[];
  readonly onRebase: (draft: ResizeDraft) => void;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Before and after, what it takes, and why; refuses to go on unseen when someone else changed the pool meanwhile. */
export function ResizeDialog({ opened, pool, draft, slots, onRebase, onClose, onDone }: ResizeDialogProps) {
  const [reason, setReason] = useState("");
  const { seen, wanted } = draft;
  const ask: Ask = {
    method: "PATCH",
    path: `/pools/${encodeURIComponent(pool.id)}`,
    body: { generation: seen.generation, replicas: wanted },
  };
  const nothingLeft = wanted === seen.replicas;
  const resize = useOperate();
  const trial = useTrial(opened && !nothingLeft ? ask : null);
  const preview = operationIn(trial.data)?.preview ?? null;
  const error = resize.error ?? trial.error;
  const moved = movedTo(draft, pool, error);
  const conflict = inTheWay(error);
  const refusal = useInSight(error);
  const apply = (queue: boolean): void => resize.mutate({ ask, reason, queue }, { onSuccess: onDone });

  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={`Resize ${pool.role} of ${pool.deployment}`}
      size="lg"
      data-testid="resize-dialog"
    >
      <Stack gap="md">
        <div className={classes.change}>
          <RoleMark role={pool.role} />
          <span className={`figures ${classes.changeFigures ?? ""}`}>
            <span data-testid="resize-before">{seen.replicas}</span>
            <IconArrowNarrowRight aria-label="to" />
            <span data-testid="resize-after">{wanted}</span>
          </span>
        </div>
        {moved === null ? (
          <Text size="sm">
            {nothingLeft
              ? "The pool has this size already: there is nothing to change."
              : consequence(pool.role, seen.replicas, wanted, freeSlots(slots))}
          </Text>
        ) : (
          <Moved
            title={`Someone changed it to ${moved.replicas}`}
            action={`Review ${moved.replicas} → ${wanted}`}
            onReview={() => {
              resize.reset();
              onRebase(rebase(draft, moved));
            }}
            testId="resize-moved"
          >
            You started from {seen.replicas}. Review the change from {moved.replicas} to {wanted} and decide again.
          </Moved>
        )}
        <SlotsNote slots={slots} />
        {moved === null && trial.isFetching && <Skeleton height={120} aria-label="Working out what would happen" />}
        {moved === null && !trial.isFetching && preview !== null && <OperationPreviewView preview={preview} />}
        <ReasonInput value={reason} onChange={setReason} placeholder="Long prompts since the morning" />
        <div ref={refusal} hidden={error === null}>
          {conflict !== null && (
            <Conflict conflict={conflict} isPending={resize.isPending} onQueue={() => apply(true)} />
          )}
          {error !== null && moved === null && conflict === null && (
            <Failure error={error} title="The pool was not resized" />
          )}
        </div>
        <DialogButtons>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            onClick={() => apply(false)}
            loading={resize.isPending}
            disabled={moved !== null || nothingLeft || conflict !== null || trial.isError}
            data-testid="resize-confirm"
          >
            Resize to {wanted}
          </Button>
        </DialogButtons>
      </Stack>
    </Modal>
  );
}
