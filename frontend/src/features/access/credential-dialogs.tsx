import { Button, Group, Modal, Select, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { Failure } from "@/components/states";
import { useRevoke, useRotate, type Credential, type CredentialKind } from "./api/credentials";
import { GRACES } from "./lifetimes";
import { SecretShown } from "./secret-shown";

interface CredentialDialogProps {
  readonly kind: CredentialKind;
  /** Which one; null is closed. */
  readonly credential: Credential | null;
  readonly onClose: () => void;
}

export function RevokeDialog({ kind, credential, onClose }: CredentialDialogProps) {
  const revoke = useRevoke(kind);
  const close = (): void => {
    revoke.reset();
    onClose();
  };
  return (
    <Modal
      opened={credential !== null}
      onClose={close}
      title={`Revoke ${credential?.name ?? ""}`}
      data-testid="revoke-dialog"
    >
      <Stack gap="md">
        <Text size="sm">
          {kind === "keys"
            ? "Programs that use it are refused from now on; answers being written are finished."
            : "Programs that use it are refused at once."}{" "}
          This can&apos;t be undone.
        </Text>
        {revoke.isError && <Failure error={revoke.error} title="It was not revoked" />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={close} data-autofocus>
            Keep it
          </Button>
          <Button
            color="red"
            loading={revoke.isPending}
            onClick={() => {
              if (credential === null) return;
              revoke.mutate(credential.id, {
                onSuccess: () => {
                  notifications.show({ message: `${credential.name} is revoked.` });
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

export function RotateDialog({ kind, credential, onClose }: CredentialDialogProps) {
  const [grace, setGrace] = useState("86400");
  const rotate = useRotate(kind);
  const close = (): void => {
    rotate.reset();
    onClose();
  };
  return (
    <Modal
      opened={credential !== null}
      onClose={close}
      title={`Rotate ${credential?.name ?? ""}`}
      closeOnClickOutside={rotate.data === undefined}
      data-testid="rotate-dialog"
    >
      {rotate.data === undefined ? (
        <Stack gap="md">
          <Text size="sm">It gets a new secret with the same name, rights and limits.</Text>
          <Select
            label="The secret that is in use"
            data={GRACES}
            value={grace}
            onChange={(value) => setGrace(value ?? "0")}
          />
          {rotate.isError && <Failure error={rotate.error} title="It was not rotated" />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button
              loading={rotate.isPending}
              onClick={() => credential && rotate.mutate({ id: credential.id, grace_s: Number(grace) })}
            >
              Rotate
            </Button>
          </Group>
        </Stack>
      ) : (
        <SecretShown secret={rotate.data} label="Copy it" onClose={close} />
      )}
    </Modal>
  );
}
