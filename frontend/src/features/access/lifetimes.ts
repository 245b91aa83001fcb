// How long keys and tokens live, and whether one still does.

export const LIFETIMES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "never", label: "Never" },
];

export const GRACES = [
  { value: "0", label: "Ends at once" },
  { value: "3600", label: "Stays good for 1 hour" },
  { value: "86400", label: "Stays good for 1 day" },
  { value: "604800", label: "Stays good for 7 days" },
];

export function daysOf(lifetime: string): number | null {
  return lifetime === "never" ? null : Number(lifetime);
}

interface Mortal {
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
}

export type CredentialState = "Active" | "Expires soon" | "Expired" | "Revoked";

const SOON_MS = 7 * 86_400_000;

export function stateOf({ expires_at: end, revoked_at: revoked }: Mortal, nowMs: number): CredentialState {
  if (revoked !== null) return "Revoked";
  if (end === null) return "Active";
  const left = Date.parse(end) - nowMs;
  if (left <= 0) return "Expired";
  return left < SOON_MS ? "Expires soon" : "Active";
}

export const isGood = (state: CredentialState): boolean => state === "Active" || state === "Expires soon";
