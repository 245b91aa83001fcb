// Links between nodes as a table: from each row to each column.

import type { LinkView } from "@/generated/contracts";

export type Cell =
  | { readonly kind: "self" }
  | { readonly kind: "unknown" }
  | { readonly kind: "failed"; readonly error: string; readonly at: string | null }
  /** share: of the fastest link, 0..1. */
  | {
      readonly kind: "measured";
      readonly bytesPerS: number;
      readonly latencyS: number | null;
      readonly share: number;
      readonly at: string | null;
    };

export function cellsOf(links: readonly LinkView[], names: readonly string[]): readonly (readonly Cell[])[] {
  const known = new Map(links.map((link) => [`${link.source}\n${link.target}`, link]));
  const fastest = Math.max(0, ...links.map((link) => link.bytes_per_s ?? 0));
  return names.map((source) =>
    names.map((target) => {
      if (source === target) return { kind: "self" };
      const link = known.get(`${source}\n${target}`);
      if (link === undefined) return { kind: "unknown" };
      if (link.bytes_per_s !== null) {
        const share = fastest === 0 ? 0 : link.bytes_per_s / fastest;
        return { kind: "measured", bytesPerS: link.bytes_per_s, latencyS: link.latency_s, share, at: link.measured_at };
      }
      return link.error === "" ? { kind: "unknown" } : { kind: "failed", error: link.error, at: link.measured_at };
    }),
  );
}
