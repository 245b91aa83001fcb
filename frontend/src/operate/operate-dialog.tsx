import { Button, Modal, Skeleton, Stack } from "@mantine/core";
import { useEffect, useEffectEvent, useState, type ReactNode } from "react";
import { DialogButtons } from "@/components/dialog-buttons";
import { OperationPreviewView } from "@/components/operation-preview";
import { ReasonInput } from "@/components/reason-input";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { inTheWay, isStale, operationIn, type Ask } from "./ask";
import { Conflict } from "./conflict";
import { Moved } from "./moved";
import { useInSight } from "./use-in-sight";
import { useOperate, useTrial } from "./use-operate";

interface OperateDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly onDone?: () => void;
  readonly title: string;
  /** What it will do, in words, and what else there is to choose. */
  readonly children?: ReactNode;
  readonly ask: Ask;
  /** Label of the button that does it. */
  readonly confirm: string;
  /** Heads the refusal: "The node was not drained". */
  readonly refused: string;
  readonly isDangerous?: boolean;
  /** Whether it is tried, and what would come of it shown, before it is done. */
  readonly hasPreview?: boolean;
  /** What a trial run answered, where that is no operation. */
  readonly showTrial?: (answer: unknown) => ReactNode;
  readonly takesReason?: boolean;
  readonly canQueue?: boolean;
  /** There is nothing to ask for yet, so nothing is tried either. */
  readonly disabled?: boolean;
  /** False where something is left to be said before it can be done; it is tried all the same. */
  readonly isConfirmed?: boolean;
  /** Told of a refusal, so that a form can show it at its field; and of null once it counts no more. */
  readonly onRefused?: (error: ApiError | null) => void;
  /** Goes on from what is there now, where somebody changed it since it was seen. */
  readonly onReview?: () => void;
  readonly keepLabel?: string;
  readonly testId?: string;
}

/** Asks before something is done: what it means, what would come of it, and why. */
export function OperateDialog({ opened, onClose, title, testId, ...rest }: OperateDialogProps) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={title}
      size={rest.hasPreview === true ? "lg" : "md"}
      data-testid={testId ?? "operate-dialog"}
    >
      {opened && <Asking onClose={onClose} {...rest} />}
    </Modal>
  );
}

type AskingProps = Omit<OperateDialogProps, "opened" | "title" | "testId">;

function Asking({
  onClose,
  onDone,
  children,
  ask,
  confirm,
  refused,
  isDangerous = false,
  hasPreview = false,
  showTrial,
  takesReason = true,
  canQueue = true,
  disabled = false,
  isConfirmed = true,
  onRefused,
  onReview,
  keepLabel = "Cancel",
}: AskingProps) {
  const [reason, setReason] = useState("");
  const operate = useOperate();
  const trial = useTrial(hasPreview && !disabled ? ask : null);
  const preview = operationIn(trial.data)?.preview ?? null;
  const isSame = JSON.stringify(operate.variables?.ask) === JSON.stringify(ask);
  const error = (isSame ? operate.error : null) ?? trial.error;
  const conflict = inTheWay(error);
  const review = isStale(error) ? onReview : undefined;
  // What a trial run says of values is read while they are entered: nothing moves away under the fingers then.
  const refusal = useInSight(conflict === null ? operate.error : error);
  const tell = useEffectEvent(() => onRefused?.(error instanceof ApiError ? error : null));
  useEffect(() => tell(), [error]);
  const apply = (queue: boolean): void =>
    operate.mutate(
      { ask, queue, ...(takesReason ? { reason } : {}) },
      {
        onSuccess: () => {
          onClose();
          onDone?.();
        },
      },
    );

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        apply(false);
      }}
    >
      <Stack gap="md">
        {children}
        {trial.isFetching && <Skeleton height={120} aria-label="Working out what would happen" />}
        {!trial.isFetching && preview !== null && <OperationPreviewView preview={preview} />}
        {!trial.isFetching && trial.isSuccess && showTrial?.(trial.data)}
        {takesReason && <ReasonInput value={reason} onChange={setReason} />}
        <div ref={refusal} hidden={error === null}>
          {conflict !== null && (
            <Conflict
              conflict={conflict}
              isPending={operate.isPending}
              {...(canQueue ? { onQueue: () => apply(true) } : {})}
            />
          )}
          {review !== undefined && (
            <Moved title="Someone changed it meanwhile" action="Go on from what it is now" onReview={review}>
              Nothing was changed yet. What you entered is kept.
            </Moved>
          )}
          {error !== null && conflict === null && review === undefined && <Failure error={error} title={refused} />}
        </div>
        <DialogButtons>
          <Button variant="default" onClick={onClose} data-autofocus>
            {keepLabel}
          </Button>
          <Button
            type="submit"
            {...(isDangerous ? { color: "red" } : {})}
            loading={operate.isPending}
            disabled={disabled || !isConfirmed || conflict !== null || review !== undefined || trial.isError}
            data-testid="operate-confirm"
          >
            {confirm}
          </Button>
        </DialogButtons>
      </Stack>
    </form>
  );
}
