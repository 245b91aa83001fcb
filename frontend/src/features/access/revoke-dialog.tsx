import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { Failure } from "@/components/states";
import type { ServingKey } from "./api/list-keys";
import { useRevokeKey } from "./api/revoke-key";

interface RevokeDialogProps {
  readonly servingKey: ServingKey | null;
  readonly onClose: () => void;
}

export function RevokeDialog({ servingKey, onClose }: RevokeDialogProps) {
  const revoke = useRevokeKey();
  const close = (): void => {
    revoke.reset();
    onClose();
  };
  return (
    <Modal opened={servingKey !== null} onClose={close} title={`Revoke ${servingKey?.name ?? "the key"}`}>
      <Stack gap="md">
        <Text size="sm">
          Programs that use it are refused from now on; answers being written are finished. This can&apos;t be undone.
        </Text>
        {revoke.isError && <Failure error={revoke.error} title="The key was not revoked" />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={close} data-autofocus>
            Keep it
          </Button>
          <Button
            color="red"
            loading={revoke.isPending}
            onClick={() => {
              if (servingKey === null) return;
              revoke.mutate(servingKey.id, {
                onSuccess: () => {
                  notifications.show({ message: `${servingKey.name} is revoked.` });
                  close();
                },
              });
            }}
          >
            Revoke
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
