import { Group, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import type { DeploymentView } from "@/generated/contracts";
import { Page } from "@/components/page";
import { Loading } from "@/components/states";
import { Status } from "@/components/status";
import { useDeployments, useFrames, useLoaded, useServerNow } from "@/live/hooks";
import { Charts } from "./charts";
import { FirstSteps } from "./first-steps";
import { Flow } from "./flow";
import { StatTiles } from "./stat-tiles";
import { windowOf } from "./window";

const SPANS = { "120": "2 min", "600": "10 min" } as const;
type Span = keyof typeof SPANS;

export function OverviewPage() {
  const loaded = useLoaded();
  const deployments = useDeployments();
  const [params, setParams] = useSearchParams();
  const span: Span = params.get("window") === "600" ? "600" : "120";
  const chosen = deployments.find((one) => one.name === params.get("deployment")) ?? deployments[0];
  const set = (key: string, value: string): void =>
    setParams(
      (old) => {
        old.set(key, value);
        return old;
      },
      { replace: true },
    );

  if (!loaded) return <Page title="Overview">{<Loading rows={3} height={150} />}</Page>;
  if (chosen === undefined) {
    return (
      <Page title="Overview">
        <FirstSteps />
      </Page>
    );
  }
  return (
    <Page
      title="Overview"
      description={<Summary deployment={chosen} />}
      actions={
        <>
          {deployments.length > 1 && (
            <Select
              aria-label="Deployment"
              data={deployments.map((one) => one.name)}
              value={chosen.name}
              onChange={(name) => name !== null && set("deployment", name)}
              w={200}
            />
          )}
          <SegmentedControl
            aria-label="Time shown"
            value={span}
            onChange={(value) => set("window", value)}
            data={Object.entries(SPANS).map(([value, label]) => ({ value, label }))}
          />
        </>
      }
    >
      <LiveOverview deployment={chosen} span={span} />
    </Page>
  );
}

function Summary({ deployment }: { readonly deployment: DeploymentView }) {
  return (
    <Group gap="sm" component="span">
      <Status tone={deployment.serving ? "good" : "warn"}>{deployment.status.replace(/\.$/, "")}</Status>
      <Text span size="sm">
        {deployment.name}
        {deployment.model !== deployment.name && ` (${deployment.model})`}
      </Text>
    </Group>
  );
}

function LiveOverview({ deployment, span }: { readonly deployment: DeploymentView; readonly span: Span }) {
  const frames = useFrames();
  const nowSecond = Math.floor(useServerNow() / 1000);
  const window = useMemo(
    () => windowOf(frames, deployment.name, nowSecond, Number(span)),
    [frames, deployment.name, nowSecond, span],
  );
  return (
    <Stack gap="md">
      <StatTiles window={window} span={SPANS[span]} />
      <Flow deployment={deployment} window={window} />
      <Charts window={window} />
    </Stack>
  );
}
