import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { IconArrowNarrowRight, IconUsers } from "@tabler/icons-react";
import { useState } from "react";
import type { PoolView } from "@/generated/contracts";
import { Failure } from "@/components/states";
import { RoleMark } from "@/components/role-mark";
import { useResizePool } from "./api/resize-pool";
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
  const resize = useResizePool();
  const moved = movedTo(draft, pool, resize.error);
  const { seen, wanted } = draft;
  const nothingLeft = wanted === seen.replicas;

  const apply = (): void =>
    resize.mutate(
      { poolId: pool.id, generation: seen.generation, replicas: wanted, reason },
      {
        onSuccess: onDone,
      },
    );

  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={`Resize ${pool.role} of ${pool.deployment}`}
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
          <Alert
            color="yellow"
            icon={<IconUsers />}
            title={`Someone changed it to ${moved.replicas}`}
            data-testid="resize-moved"
          >
            <Text size="sm">
              You started from {seen.replicas}. Review the change from {moved.replicas} to {wanted} and decide again.
            </Text>
            <Button
              mt="sm"
              size="xs"
              variant="default"
              onClick={() => {
                resize.reset();
                onRebase(rebase(draft, moved));
              }}
            >
              Review {moved.replicas} → {wanted}
            </Button>
          </Alert>
        )}
        <SlotsNote slots={slots} />
        <TextInput
          label="Reason"
          description="Optional; kept with the operation"
          placeholder="Long prompts since the morning"
          maxLength={200}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {resize.isError && moved === null && <Failure error={resize.error} title="The pool was not resized" />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            onClick={apply}
            loading={resize.isPending}
            disabled={moved !== null || nothingLeft}
            data-testid="resize-confirm"
          >
            Resize to {wanted}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
