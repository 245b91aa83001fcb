import { Button, Group, Loader, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { CopyBlock } from "@/components/copy";
import { Failure } from "@/components/states";
import { dateTime } from "@/lib/format";
import { useCreateJoinToken, type JoinToken } from "./api/join-tokens";

const LIFETIMES = [
  { value: "900", label: "15 minutes" },
  { value: "3600", label: "1 hour" },
  { value: "86400", label: "1 day" },
];

interface AddNodeDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
}

/** Makes a join token and shows the one command that uses it. */
export function AddNodeDialog({ opened, onClose }: AddNodeDialogProps) {
  const [note, setNote] = useState("");
  const [lifetime, setLifetime] = useState("3600");
  const create = useCreateJoinToken();
  const close = (): void => {
    onClose();
    create.reset();
    setNote("");
  };
  return (
    <Modal opened={opened} onClose={close} title="Add a node" size="lg" data-testid="add-node-dialog">
      {create.data ? (
        <Joining token={create.data} onClose={close} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            create.mutate({ note, ttl_s: Number(lifetime) });
          }}
        >
          <Stack gap="md">
            <Text size="sm">
              A node is a machine with GPUs, or with processor cores to spare. It runs Tandem&apos;s agent, which joins
              by a token that works once and starts the workers placed on it.
            </Text>
            <TextInput
              label="Note"
              description="Optional; helps to tell tokens apart"
              placeholder="rack 2, third machine"
              maxLength={200}
              value={note}
              onChange={(event) => setNote(event.currentTarget.value)}
              data-autofocus
            />
            <Select
              label="Good for"
              data={LIFETIMES}
              value={lifetime}
              onChange={(value) => setLifetime(value ?? "3600")}
            />
            {create.isError && <Failure error={create.error} title="No token was made" />}
            <Group justify="flex-end" gap="xs">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button type="submit" loading={create.isPending}>
                Create a join token
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}

function Joining({ token, onClose }: { readonly token: JoinToken; readonly onClose: () => void }) {
  return (
    <Stack gap="md">
      <Text size="sm">
        Run this on the new machine, in a checkout of Tandem. The token in it works once, until{" "}
        {dateTime(token.expires_at)}, and is not shown again.
      </Text>
      <CopyBlock value={token.command} label="Copy the command" testId="join-command" />
      <Group gap="xs">
        <Loader size={12} color="gray" aria-hidden />
        <Text size="sm" c="dimmed">
          The node appears on the fleet page as soon as it has joined.
        </Text>
      </Group>
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          Done
        </Button>
      </Group>
    </Stack>
  );
}
