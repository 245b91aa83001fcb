import { Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { OperateDialog } from "@/operate/operate-dialog";

interface DeleteModelDialogProps {
  readonly name: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Tried at once: what still uses the model is told before anybody confirms. Mounted while it is open. */
export function DeleteModelDialog({ name, onClose, onDone }: DeleteModelDialogProps) {
  return (
    <OperateDialog
      opened
      onClose={onClose}
      onDone={() => {
        notifications.show({ message: `${name} is no longer in the catalogue.` });
        onDone();
      }}
      title={`Delete ${name}`}
      ask={{ method: "DELETE", path: `/models/${encodeURIComponent(name)}` }}
      confirm="Delete"
      refused={`${name} can't be deleted now`}
      isDangerous
      hasPreview
      takesReason={false}
      canQueue={false}
      testId="delete-model-dialog"
    >
      <Text size="sm">
        It leaves the catalogue and can't be deployed any more. Its files stay on the nodes; a fetch under way ends.
      </Text>
    </OperateDialog>
  );
}
