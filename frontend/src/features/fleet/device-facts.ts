// What is known of a device, in few words.

import { DeviceKind, type DeviceView } from "@/generated/contracts";
import { plural } from "@/lib/format";

export function titleOf(device: DeviceView): string {
  if (device.kind === DeviceKind.CPU) return `CPU slot ${device.index}`;
  return device.parent === null ? `GPU ${device.index}` : `MIG ${device.index}`;
}

/** What it is and how it does, leaving out what is not known. */
export function factsOf(device: DeviceView): readonly string[] {
  const { cores, temperature_c: celsius, power_w: watts, power_limit_w: limit } = device;
  const parts = [
    cores.length === 0 ? null : `${cores.length === 1 ? "core" : "cores"} ${ranges(cores)}`,
    device.parent === null ? null : `part of ${device.parent}`,
    celsius === null ? null : `${Math.round(celsius)} °C`,
    watts === null ? null : `${Math.round(watts)}${limit === null ? "" : ` of ${Math.round(limit)}`} W`,
    device.pcie_gen === null
      ? null
      : `PCIe ${device.pcie_gen}${device.pcie_width === null ? "" : `×${device.pcie_width}`}`,
    device.nvlink_peers.length === 0 ? null : `NVLink to ${device.nvlink_peers.join(", ")}`,
  ];
  return parts.filter((part) => part !== null);
}

/** What is wrong with it, in sentences. */
export function troublesOf(device: DeviceView): readonly string[] {
  const parts = [
    device.fault === "" ? null : device.fault,
    device.missing ? "Its node no longer reports it." : null,
    device.ecc_uncorrected === null || device.ecc_uncorrected === 0
      ? null
      : `${plural(device.ecc_uncorrected, "memory error")} that ECC could not correct.`,
    device.xid === null || device.xid === 0 ? null : `Last driver error: XID ${device.xid}.`,
  ];
  return parts.filter((part) => part !== null);
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
