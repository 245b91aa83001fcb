// Numbers and times as people read them. `null` is "not known" and is shown as a dash, never as zero.

export const UNKNOWN = "–";

function significant(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** A latency given in seconds: "0.42 ms", "87.3 ms", "1.24 s", "2 min 05 s". */
export function duration(seconds: number | null): string {
  if (seconds === null) return UNKNOWN;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.9995) return `${significant(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${significant(seconds)} s`;
  return elapsed(seconds);
}

/** A span in whole seconds, for clocks that tick: "7 s", "2 min 05 s", "3 h 12 min". */
export function elapsed(seconds: number | null): string {
  if (seconds === null) return UNKNOWN;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

function pad(value: number): string {
  return value.toString().padStart(2, "0");
}

/** How long before `nowMs` an ISO time lies: "just now", "12 s ago", "3 min ago", "5 h ago", "2 d ago". */
export function ago(iso: string | null, nowMs: number): string {
  if (iso === null) return "never";
  const seconds = Math.max(0, (nowMs - Date.parse(iso)) / 1000);
  if (seconds < 3) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A whole count: "0", "1,204", "38.2k", "1.20M". */
export function count(value: number | null): string {
  if (value === null) return UNKNOWN;
  if (value >= 1e6) return `${significant(value / 1e6)}M`;
  if (value >= 1e4) return `${significant(value / 1e3)}k`;
  return Math.round(value).toLocaleString("en-US");
}

/** Something per second, one decimal while it is small: "0", "0.3", "8.4", "112", "12.3k". */
export function rate(value: number | null): string {
  if (value === null) return UNKNOWN;
  if (value === 0) return "0";
  if (value < 10) return value.toFixed(1);
  return count(value);
}

/** Bytes in binary units: "512 B", "1.50 GiB". */
export function bytes(value: number | null): string {
  if (value === null) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let amount = value;
  let unit = 0;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${amount.toFixed(0)} B` : `${significant(amount)} ${units[unit] ?? ""}`;
}

/** A share 0..1: "0 %", "< 1 %", "42 %". */
export function percent(share: number | null): string {
  if (share === null) return UNKNOWN;
  if (share > 0 && share < 0.01) return "< 1 %";
  return `${Math.round(share * 100)} %`;
}

/** A number with its noun: "1 worker", "2 workers". */
export function plural(amount: number, singular: string, many = `${singular}s`): string {
  return `${amount.toLocaleString("en-US")} ${amount === 1 ? singular : many}`;
}

/** An ISO time in the reader's zone: "31 Oct 2026, 14:05". */
export function dateTime(iso: string): string {
  return new Date(iso).toLocaleString("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
}

/** The day of an ISO time in the reader's zone: "31 Oct 2026". */
export function day(iso: string): string {
  return new Date(iso).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

/** The time of day of an ISO time in the reader's zone: "14:05:09". */
export function clock(iso: string): string {
  return new Date(iso).toLocaleTimeString("en-GB");
}

/** A latency for an axis, without trailing zeros: "50 ms", "1.5 s". */
export function axisDuration(seconds: number): string {
  if (seconds === 0) return "0";
  return seconds < 1 ? `${trimmed(seconds * 1000)} ms` : `${trimmed(seconds)} s`;
}

/** A count for an axis: "0", "12", "1.5k". */
export function axisCount(value: number): string {
  return value >= 1000 ? `${trimmed(value / 1000)}k` : trimmed(value);
}

function trimmed(value: number): string {
  return Number(value.toPrecision(3)).toString();
}
