import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import type { DeploymentView } from "@/generated/contracts";
import { Failure } from "@/components/states";
import { plural } from "@/lib/format";
import { useDeleteDeployment } from "./api/delete-deployment";

interface DeleteDialogProps {
  readonly opened: boolean;
  readonly deployment: DeploymentView;
  readonly onClose: () => void;
}

/** Asks for the name to be typed: this ends a service that others use. */
export function DeleteDialog({ opened, deployment, onClose }: DeleteDialogProps) {
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const remove = useDeleteDeployment();
  const workers = deployment.pools.reduce((sum, pool) => sum + pool.workers.length, 0);
  return (
    <Modal opened={opened} onClose={onClose} title={`Delete ${deployment.name}`} data-testid="delete-dialog">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (typed === deployment.name) remove.mutate({ name: deployment.name, reason }, { onSuccess: onClose });
        }}
      >
        <Stack gap="md">
          <Text size="sm">
            {deployment.name} takes no new requests from now on. {plural(workers, "worker")}{" "}
            {workers === 1 ? "finishes what it has and stops" : "finish what they have and stop"}. The model stays in
            the catalogue.
          </Text>
          <TextInput
            label={`Type ${deployment.name} to confirm`}
            autoComplete="off"
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            data-autofocus
          />
          <TextInput
            label="Reason"
            description="Optional; kept with the operation"
            maxLength={200}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          {remove.isError && <Failure error={remove.error} title="The deployment was not deleted" />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" color="red" disabled={typed !== deployment.name} loading={remove.isPending}>
              Delete
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
