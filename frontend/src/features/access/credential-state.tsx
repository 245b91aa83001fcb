import { Text } from "@mantine/core";
import { Status } from "@/components/status";
import { dateTime, day } from "@/lib/format";
import type { Credential } from "./api/credentials";
import { stateOf, type CredentialState } from "./lifetimes";

interface CredentialStateProps {
  readonly credential: Credential;
  readonly nowMs: number;
}

const TONE: Readonly<Record<CredentialState, "good" | "warn" | "busy">> = {
  Active: "good",
  "Expires soon": "warn",
  Expired: "busy",
  Revoked: "busy",
};

/** Whether it is still good, and whether the secret before its last rotation is. */
export function CredentialStatus({ credential, nowMs }: CredentialStateProps) {
  const state = stateOf(credential, nowMs);
  const { previous_until: previous } = credential;
  return (
    <>
      <Status tone={TONE[state]}>{state}</Status>
      {previous !== null && Date.parse(previous) > nowMs && (
        <Text size="xs" c="dimmed">
          old secret good until {dateTime(previous)}
        </Text>
      )}
    </>
  );
}

export function expiry(at: string | null): string {
  return at === null ? "never" : day(at);
}
