import { Button, Group, Modal, Select, Stack, Switch, TagsInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { Failure } from "@/components/states";
import type { DeviceView } from "@/generated/contracts";
import { useDeployments } from "@/live/hooks";
import { useChangeDevice, useForgetDevice, type DeviceChange } from "./api/change-fleet";

interface DeviceDialogProps {
  readonly opened: boolean;
  readonly device: DeviceView;
  /** As people call it: "GPU 3 of rack-2". */
  readonly title: string;
  readonly onClose: () => void;
}

/** What operators want of a device: maintenance, a reservation, labels. */
export function DeviceDialog({ opened, device, title, onClose }: DeviceDialogProps) {
  return (
    <Modal opened={opened} onClose={onClose} title={title} data-testid="device-dialog">
      {opened && <DeviceForm device={device} onClose={onClose} />}
    </Modal>
  );
}

function DeviceForm({ device, onClose }: { readonly device: DeviceView; readonly onClose: () => void }) {
  const change = useChangeDevice();
  const forget = useForgetDevice();
  const deployments = useDeployments();
  const { labels, maintenance, maintenance_note, reserved_for } = device;
  const form = useForm<DeviceChange>({
    initialValues: { labels: [...labels], maintenance, maintenance_note, reserved_for },
  });
  const error = change.error ?? forget.error;
  const names = new Set([...deployments.map((one) => one.name), ...(reserved_for === "" ? [] : [reserved_for])]);
  return (
    <form
      onSubmit={form.onSubmit((values) => change.mutate({ id: device.id, ...values }, { onSuccess: onClose }))}
      noValidate
    >
      <Stack gap="md">
        <Switch
          label="In maintenance"
          description="No worker is placed here; one that runs stays"
          {...form.getInputProps("maintenance", { type: "checkbox" })}
        />
        {form.values.maintenance && (
          <TextInput
            label="Why"
            placeholder="Fan is loud"
            maxLength={200}
            {...form.getInputProps("maintenance_note")}
          />
        )}
        <Select
          label="Reserved for"
          data={[{ value: "", label: "Nobody: every deployment may have it" }, ...names]}
          {...form.getInputProps("reserved_for")}
        />
        <TagsInput
          label="Labels"
          description="Beside those of its node"
          placeholder={form.values.labels.length === 0 ? "fast" : ""}
          acceptValueOnBlur
          {...form.getInputProps("labels")}
        />
        {error !== null && <Failure error={error} title="The device stays as it was" />}
        <Group justify="flex-end" gap="xs">
          {device.missing && device.worker_id === null && (
            <Button
              variant="default"
              color="red"
              mr="auto"
              loading={forget.isPending}
              onClick={() => forget.mutate(device.id, { onSuccess: onClose })}
            >
              Forget it
            </Button>
          )}
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={change.isPending}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
