// How many devices there are for workers, and how many of them are taken.

import { DeviceKind, NodePhase, type NodeView } from "@/generated/contracts";

export interface Slots {
  readonly kind: DeviceKind;
  readonly used: number;
  readonly total: number;
}

export const SLOT_NOUN: Readonly<Record<DeviceKind, string>> = {
  [DeviceKind.GPU]: "GPU",
  [DeviceKind.CPU]: "CPU slot",
};

/** Per kind of device, over all nodes that are ready; kinds that no node has are left out. */
export function slotsOf(nodes: readonly NodeView[]): readonly Slots[] {
  const devices = nodes.filter((node) => node.phase === NodePhase.READY).flatMap((node) => node.devices);
  return [DeviceKind.GPU, DeviceKind.CPU].flatMap((kind) => {
    const ofKind = devices.filter((device) => device.kind === kind);
    if (ofKind.length === 0) return [];
    return [{ kind, total: ofKind.length, used: ofKind.filter((device) => device.worker_id !== null).length }];
  });
}

export function freeSlots(slots: readonly Slots[]): number {
  return slots.reduce((sum, one) => sum + one.total - one.used, 0);
}
