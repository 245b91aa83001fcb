import { Text, TextInput } from "@mantine/core";
import { useState } from "react";
import type { DeploymentView } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { OperateDialog } from "@/operate/operate-dialog";

interface DeleteDialogProps {
  readonly opened: boolean;
  readonly deployment: DeploymentView;
  readonly onClose: () => void;
}

/** Asks for the name to be typed: this ends a service that others use. */
export function DeleteDialog({ opened, deployment, onClose }: DeleteDialogProps) {
  const [typed, setTyped] = useState("");
  const workers = deployment.pools.reduce((sum, pool) => sum + pool.workers.length, 0);
  return (
    <OperateDialog
      opened={opened}
      onClose={() => {
        setTyped("");
        onClose();
      }}
      title={`Delete ${deployment.name}`}
      ask={{ method: "DELETE", path: `/deployments/${encodeURIComponent(deployment.name)}` }}
      confirm="Delete"
      refused="The deployment was not deleted"
      isDangerous
      canQueue={false}
      hasPreview
      isConfirmed={typed === deployment.name}
      testId="delete-dialog"
    >
      <Text size="sm">
        {deployment.name} takes no new requests from now on. {plural(workers, "worker")}{" "}
        {workers === 1 ? "finishes what it has and stops" : "finish what they have and stop"}. The model stays in the
        catalogue.
      </Text>
      <TextInput
        label={`Type ${deployment.name} to confirm`}
        autoComplete="off"
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
    </OperateDialog>
  );
}
