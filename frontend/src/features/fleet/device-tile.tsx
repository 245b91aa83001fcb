import { ActionIcon, Anchor, Text } from "@mantine/core";
import { IconPencil } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import type { DeviceView } from "@/generated/contracts";
import { Meter } from "@/components/meter";
import { RoleMark } from "@/components/role-mark";
import { bytes, percent, UNKNOWN } from "@/lib/format";
import type { PlacedWorker } from "@/live/hooks";
import { DeviceDialog } from "./device-dialog";
import { factsOf, titleOf } from "./device-facts";
import { DeviceMarks } from "./device-marks";
import classes from "./fleet.module.css";

interface DeviceTileProps {
  readonly device: DeviceView;
  readonly holder: PlacedWorker | null;
  /** Name of its node. */
  readonly node: string;
  readonly mayChange: boolean;
}

/** One device: who holds it (reserved) above how much of it is in use (used). */
export function DeviceTile({ device, holder, node, mayChange }: DeviceTileProps) {
  const [changing, setChanging] = useState(false);
  const title = titleOf(device);
  const memory =
    device.memory_total === null || device.memory_used === null ? null : device.memory_used / device.memory_total;
  return (
    <div
      className={classes.device}
      data-testid="device"
      data-device={device.device_id}
      data-free={device.worker_id === null || undefined}
      data-unusable={device.fault !== "" || device.maintenance || undefined}
    >
      <div className={classes.deviceHead}>
        <div className={classes.deviceTitle}>
          <Text size="sm" fw={550}>
            {title}
          </Text>
          {mayChange && (
            <ActionIcon size="sm" aria-label={`Change ${title} of ${node}`} onClick={() => setChanging(true)}>
              <IconPencil size={14} />
            </ActionIcon>
          )}
        </div>
        {device.name !== title && (
          <Text size="xs" c="dimmed" truncate title={device.name}>
            {device.name}
          </Text>
        )}
      </div>
      <div className={classes.holder}>
        <Holder device={device} holder={holder} />
      </div>
      <DeviceMarks device={device} />
      <dl className={classes.levels}>
        <Level label="Memory" share={memory} text={memoryText(device)} />
        <Level label="Busy" share={device.utilization} text={percent(device.utilization)} />
        {device.memory_bandwidth_use !== null && (
          <Level
            label="Memory traffic"
            share={device.memory_bandwidth_use}
            text={percent(device.memory_bandwidth_use)}
          />
        )}
        {device.sm_use !== null && <Level label="SMs" share={device.sm_use} text={percent(device.sm_use)} />}
      </dl>
      <Text size="xs" c="dimmed" className="figures">
        {factsOf(device).join(" · ")}
      </Text>
      <DeviceDialog
        opened={changing}
        device={device}
        title={`${title} of ${node}`}
        onClose={() => setChanging(false)}
      />
    </div>
  );
}

function Holder({ device, holder }: Pick<DeviceTileProps, "device" | "holder">) {
  if (device.worker_id === null) {
    return (
      <Text size="sm" c="dimmed">
        Free
      </Text>
    );
  }
  if (holder === null) return <Text size="sm">Held by a worker that is going</Text>;
  return (
    <>
      <RoleMark role={holder.worker.role} />
      <Anchor component={Link} to={`/pools?worker=${holder.worker.id}`} size="sm" c="inherit" truncate>
        {holder.pool.deployment} / {holder.worker.name}
      </Anchor>
    </>
  );
}

interface LevelProps {
  readonly label: string;
  readonly share: number | null;
  readonly text: string;
}

function Level({ label, share, text }: LevelProps) {
  return (
    <div>
      <dt>{label}</dt>
      <dd className="figures">
        {text}
        <Meter label={label} share={share} />
      </dd>
    </div>
  );
}

function memoryText(device: DeviceView): string {
  if (device.memory_total === null) return UNKNOWN;
  return `${device.memory_used === null ? UNKNOWN : bytes(device.memory_used)} of ${bytes(device.memory_total)}`;
}
