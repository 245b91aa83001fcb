import { Alert, Text, Tooltip } from "@mantine/core";
import { IconCloudOff, IconPlugConnectedX } from "@tabler/icons-react";
import { Status } from "@/components/status";
import { elapsed } from "@/lib/format";
import { useConnection, useLoaded } from "@/live/hooks";
import { useSecondsSince } from "./use-seconds-since";

/** Always in sight: whether what is shown is current. */
export function ConnectionMark() {
  const connection = useConnection();
  switch (connection.phase) {
    case "live":
      return (
        <Tooltip label="Everything shown is current; changes appear by themselves.">
          <span data-testid="connection" data-phase="live">
            <Status tone="good">Live</Status>
          </span>
        </Tooltip>
      );
    case "stale":
      return (
        <span data-testid="connection" data-phase="stale">
          <Status tone="warn">Stale</Status>
        </span>
      );
    default:
      return (
        <span data-testid="connection" data-phase={connection.phase}>
          <Status tone="busy" moving>
            {connection.phase === "reconnecting" ? "Reconnecting" : "Connecting"}
          </Status>
        </span>
      );
  }
}

/** Says above the page when it can't be trusted to be current, and since when. */
export function ConnectionBanner() {
  const connection = useConnection();
  const loaded = useLoaded();
  const seconds = useSecondsSince("since" in connection ? connection.since : null);
  if (connection.phase === "reconnecting") {
    return (
      <Banner icon={<IconPlugConnectedX />} title="Connection lost">
        {loaded
          ? `What you see is ${elapsed(seconds)} old. The console reconnects by itself and then catches up.`
          : "The console keeps trying to reach the control plane."}
      </Banner>
    );
  }
  if (connection.phase === "stale") {
    return (
      <Banner icon={<IconCloudOff />} title="This may be out of date">
        {`${sentence(connection.reason)} Last update ${elapsed(seconds)} ago. Requests are still being served.`}
      </Banner>
    );
  }
  return null;
}

interface BannerProps {
  readonly icon: React.ReactNode;
  readonly title: string;
  readonly children: string;
}

function Banner({ icon, title, children }: BannerProps) {
  return (
    <Alert
      color="yellow"
      variant="light"
      icon={icon}
      title={title}
      mb="lg"
      role="status"
      data-testid="connection-banner"
    >
      <Text size="sm" className="figures">
        {children}
      </Text>
    </Alert>
  );
}

function sentence(text: string): string {
  const trimmed = text.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}
