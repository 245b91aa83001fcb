import { Anchor, Text } from "@mantine/core";
import { Link } from "react-router";
import { DeviceKind, type DeviceView } from "@/generated/contracts";
import { Meter } from "@/components/meter";
import { RoleMark } from "@/components/role-mark";
import { bytes, percent, UNKNOWN } from "@/lib/format";
import type { PlacedWorker } from "@/live/hooks";
import classes from "./fleet.module.css";

interface DeviceTileProps {
  readonly device: DeviceView;
  readonly holder: PlacedWorker | null;
}

/** One device: who holds it (reserved) above how much of it is in use (used). */
export function DeviceTile({ device, holder }: DeviceTileProps) {
  const title = device.kind === DeviceKind.GPU ? `GPU ${device.index}` : `CPU slot ${device.index}`;
  const memory =
    device.memory_total === null || device.memory_used === null ? null : device.memory_used / device.memory_total;
  return (
    <div
      className={classes.device}
      data-testid="device"
      data-device={device.device_id}
      data-free={device.worker_id === null || undefined}
    >
      <div className={classes.deviceHead}>
        <Text size="sm" fw={550}>
          {title}
        </Text>
        {device.name !== title && (
          <Text size="xs" c="dimmed" truncate title={device.name}>
            {device.name}
          </Text>
        )}
      </div>
      <div className={classes.holder}>
        <Holder device={device} holder={holder} />
        {device.missing && (
          <Text size="xs" c="var(--warn)">
            Its node no longer reports it
          </Text>
        )}
      </div>
      <dl className={classes.levels}>
        <Level label="Memory" share={memory} text={memoryText(device)} />
        <Level label="Busy" share={device.utilization} text={percent(device.utilization)} />
      </dl>
      <Text size="xs" c="dimmed" className="figures">
        {facts(device)}
      </Text>
    </div>
  );
}

function Holder({ device, holder }: DeviceTileProps) {
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

function facts(device: DeviceView): string {
  const parts = [
    device.cores.length === 0 ? null : `${device.cores.length === 1 ? "core" : "cores"} ${ranges(device.cores)}`,
    device.temperature_c === null ? null : `${Math.round(device.temperature_c)} °C`,
    device.power_w === null ? null : `${Math.round(device.power_w)} W`,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

/** Core numbers with runs drawn together: "0–7, 16". */
export function ranges(numbers: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
