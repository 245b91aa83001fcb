import { ActionIcon, Button, Group, NumberInput, Text } from "@mantine/core";
import { IconMinus, IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import type { PoolView } from "@/generated/contracts";
import type { Slots } from "./slots";
import { beginDraft, type ResizeDraft } from "./resize-draft";
import { ResizeDialog } from "./resize-dialog";

interface ResizeControlProps {
  readonly pool: PoolView;
  readonly slots: readonly Slots[];
  readonly disabled: boolean;
}

/** Replica count of one pool: step, then apply; the dialog shows what it means before anything happens. */
export function ResizeControl({ pool, slots, disabled }: ResizeControlProps) {
  const [draft, setDraft] = useState<ResizeDraft | null>(null);
  const [asking, setAsking] = useState(false);
  const value = draft?.wanted ?? pool.replicas;
  const changed = draft !== null && draft.wanted !== pool.replicas;

  const want = (wanted: number): void => {
    const bounded = Math.min(pool.max_replicas, Math.max(pool.min_replicas, wanted));
    setDraft(bounded === pool.replicas ? null : draft ? { ...draft, wanted: bounded } : beginDraft(pool, bounded));
  };
  const drop = (): void => {
    setAsking(false);
    setDraft(null);
  };

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (changed) setAsking(true);
      }}
    >
      <Group gap="xs" wrap="nowrap">
        <ActionIcon
          variant="default"
          size="lg"
          aria-label={`One ${pool.role} replica fewer`}
          disabled={disabled || value <= pool.min_replicas}
          onClick={() => want(value - 1)}
        >
          <IconMinus size={16} />
        </ActionIcon>
        <NumberInput
          aria-label={`${pool.role} replicas`}
          data-testid={`replicas-${pool.role}`}
          hideControls
          w={56}
          min={pool.min_replicas}
          max={pool.max_replicas}
          clampBehavior="strict"
          value={value}
          disabled={disabled}
          onChange={(next) => typeof next === "number" && want(next)}
          styles={{ input: { textAlign: "center", fontWeight: 620, fontVariantNumeric: "tabular-nums" } }}
        />
        <ActionIcon
          variant="default"
          size="lg"
          aria-label={`One ${pool.role} replica more`}
          disabled={disabled || value >= pool.max_replicas}
          onClick={() => want(value + 1)}
        >
          <IconPlus size={16} />
        </ActionIcon>
        <Button
          type="submit"
          variant={changed ? "filled" : "default"}
          disabled={!changed || disabled}
          aria-label={`Resize ${pool.role}`}
        >
          Resize
        </Button>
        {changed && (
          <Button variant="subtle" color="gray" px="xs" onClick={drop}>
            Undo
          </Button>
        )}
      </Group>
      {value >= pool.max_replicas && (
        <Text size="xs" c="dimmed" mt={4}>
          {pool.max_replicas} is the most this pool may have.
        </Text>
      )}
      {draft && (
        <ResizeDialog
          opened={asking}
          pool={pool}
          draft={draft}
          slots={slots}
          onRebase={setDraft}
          onClose={() => setAsking(false)}
          onDone={drop}
        />
      )}
    </form>
  );
}
