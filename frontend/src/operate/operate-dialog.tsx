import { Button, Modal, Skeleton, Stack } from "@mantine/core";
import { useState, type ReactNode } from "react";
import { DialogButtons } from "@/components/dialog-buttons";
import { OperationPreviewView } from "@/components/operation-preview";
import { ReasonInput } from "@/components/reason-input";
import { Failure } from "@/components/states";
import { inTheWay, type Ask } from "./ask";
import { Conflict } from "./conflict";
import { useInSight } from "./use-in-sight";
import { useOperate, usePreview } from "./use-operate";

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
  /** It has no operation of its own to look at before: nothing is tried. */
  readonly hasPreview?: boolean;
  readonly takesReason?: boolean;
  readonly canQueue?: boolean;
  readonly disabled?: boolean;
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
  takesReason = true,
  canQueue = true,
  disabled = false,
  keepLabel = "Cancel",
}: AskingProps) {
  const [reason, setReason] = useState("");
  const operate = useOperate();
  const preview = usePreview(hasPreview && !disabled ? ask : null);
  const error = operate.error ?? preview.error;
  const conflict = inTheWay(error);
  const refusal = useInSight(error);
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
        {preview.isFetching && <Skeleton height={120} aria-label="Working out what would happen" />}
        {!preview.isFetching && preview.data?.preview && <OperationPreviewView preview={preview.data.preview} />}
        {takesReason && <ReasonInput value={reason} onChange={setReason} />}
        <div ref={refusal} hidden={error === null}>
          {conflict !== null && (
            <Conflict
              conflict={conflict}
              isPending={operate.isPending}
              {...(canQueue ? { onQueue: () => apply(true) } : {})}
            />
          )}
          {error !== null && conflict === null && <Failure error={error} title={refused} />}
        </div>
        <DialogButtons>
          <Button variant="default" onClick={onClose} data-autofocus>
            {keepLabel}
          </Button>
          <Button
            type="submit"
            {...(isDangerous ? { color: "red" } : {})}
            loading={operate.isPending}
            disabled={disabled || conflict !== null || preview.isError}
            data-testid="operate-confirm"
          >
            {confirm}
          </Button>
        </DialogButtons>
      </Stack>
    </form>
  );
}
