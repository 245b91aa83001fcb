// What is promised of each request: milliseconds for people, seconds on the wire. An empty field promises nothing.

export interface SloValues {
  readonly ttft_ms: number | string;
  readonly tpot_ms: number | string;
}

export function inMilliseconds(seconds: number | null): number | string {
  return seconds === null ? "" : Number((seconds * 1000).toPrecision(9));
}

export function inSeconds(milliseconds: number | string): number | null {
  return typeof milliseconds === "number" ? milliseconds / 1000 : null;
}

export function promised(milliseconds: number | string): string {
  return typeof milliseconds === "number" ? `${milliseconds}\u00a0ms` : "no promise";
}
