import { NumberInput, Select, SimpleGrid, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { Changes } from "@/components/changes";
import type { PoolView } from "@/generated/contracts";
import { isRecord } from "@/lib/api";
import { beginEdit, changedIn, changesAnything, rebased, type Edit } from "@/lib/edit";
import { plural } from "@/lib/format";
import { Moved } from "@/operate/moved";
import { OperateDialog } from "@/operate/operate-dialog";
import { LabelsInput } from "./labels-input";
import { isComplete, poolChanges, settingsOf, STRATEGIES, type PoolSettings } from "./pool-settings";

interface PoolSettingsDialogProps {
  readonly pool: PoolView;
  readonly onClose: () => void;
}

interface Draft {
  readonly generation: number;
  readonly edit: Edit<PoolSettings>;
}

function begun(pool: PoolView): Draft {
  return { generation: pool.generation, edit: beginEdit(settingsOf(pool)) };
}

/** How large a pool may be, and where its workers may be placed. Mounted while it is open. */
export function PoolSettingsDialog({ pool, onClose }: PoolSettingsDialogProps) {
  const [{ generation, edit }, setDraft] = useState<Draft>(() => begun(pool));
  const [settled] = useDebouncedValue(edit, 300);
  const { seen, wanted } = edit;
  const isMoved = pool.generation > generation;
  const want = (change: Partial<PoolSettings>): void =>
    setDraft({ generation, edit: { seen, wanted: { ...wanted, ...change } } });
  return (
    <OperateDialog
      opened
      onClose={onClose}
      title={`Limits and placement of ${pool.role} of ${pool.deployment}`}
      ask={{
        method: "PATCH",
        path: `/pools/${encodeURIComponent(pool.id)}`,
        body: { generation, ...changedIn(settled) },
      }}
      confirm="Save"
      refused="The pool stays as it was"
      hasPreview
      showTrial={(answer) => (
        <Changes
          changes={poolChanges(seen, settingsIn(answer) ?? settled.wanted)}
          note="Workers that run stay where they are: labels and placement count for those to come."
        />
      )}
      canQueue={false}
      disabled={!changesAnything(settled) || !isComplete(settled.wanted) || isMoved || settled !== edit}
      testId="pool-settings-dialog"
    >
      <SimpleGrid cols={2}>
        <NumberInput
          label="Fewest workers"
          description="Replacing workers leaves at least so many"
          min={0}
          value={wanted.min_replicas}
          onChange={(min_replicas) => want({ min_replicas })}
        />
        <NumberInput
          label="Most workers"
          description="It can't be resized beyond this"
          min={0}
          value={wanted.max_replicas}
          onChange={(max_replicas) => want({ max_replicas })}
        />
      </SimpleGrid>
      <LabelsInput
        label="Only on devices with"
        description="All of these labels, of the device or of its node"
        value={[...wanted.labels]}
        onChange={(labels) => want({ labels })}
      />
      <Select
        label="Placement"
        data={STRATEGIES}
        allowDeselect={false}
        value={wanted.strategy}
        onChange={(strategy) => strategy !== null && want({ strategy })}
      />
      <Text size="sm" c="dimmed">
        {`Each worker has ${plural(pool.tensor_parallel, "device")}. That was set when ${pool.deployment} was deployed, and stays.`}
      </Text>
      {isMoved && (
        <Moved
          title="Someone changed the pool meanwhile"
          action="Go on from what it is now"
          onReview={() => setDraft({ generation: pool.generation, edit: rebased(edit, settingsOf(pool)) })}
        >
          What you entered is kept; the rest is as it is now.
        </Moved>
      )}
    </OperateDialog>
  );
}

/** The pool as a trial run answered it. */
function settingsIn(answer: unknown): PoolSettings | null {
  return isRecord(answer) && isRecord(answer.pool) ? settingsOf(answer.pool as unknown as PoolView) : null;
}
