import { Button, Group, Modal, Stack, TagsInput } from "@mantine/core";
import { useState } from "react";
import { Failure } from "@/components/states";
import type { NodeView } from "@/generated/contracts";
import { useLabelNode } from "./api/change-fleet";

interface LabelsDialogProps {
  readonly opened: boolean;
  readonly node: NodeView;
  readonly onClose: () => void;
}

export function LabelsDialog({ opened, node, onClose }: LabelsDialogProps) {
  return (
    <Modal opened={opened} onClose={onClose} title={`Labels of ${node.name}`} data-testid="labels-dialog">
      {opened && <LabelsForm node={node} onClose={onClose} />}
    </Modal>
  );
}

function LabelsForm({ node, onClose }: Omit<LabelsDialogProps, "opened">) {
  const [labels, setLabels] = useState<string[]>([...node.labels]);
  const write = useLabelNode();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        write.mutate({ id: node.id, labels }, { onSuccess: onClose });
      }}
    >
      <Stack gap="md">
        <TagsInput
          label="Labels"
          description="For placement: a word, or key=value. Workers that run stay where they are"
          placeholder="rack=r7"
          value={labels}
          onChange={setLabels}
          acceptValueOnBlur
          data-autofocus
        />
        {write.isError && <Failure error={write.error} title="The labels stay as they were" />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={write.isPending}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
