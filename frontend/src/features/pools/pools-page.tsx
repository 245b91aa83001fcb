import { Button, Stack } from "@mantine/core";
import { IconPlus, IconStack2 } from "@tabler/icons-react";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { useDeployments, useLoaded, useNodes } from "@/live/hooks";
import { DeployDialog } from "./deploy-dialog";
import { DeploymentSection } from "./deployment-section";
import { LogDrawer } from "./log-drawer";
import { slotsOf } from "./slots";
import { SlotsNote } from "./slots-note";

/** What is open lies in the address: `?deploy` the dialog, `?log=<worker id>` a log. */
export function PoolsPage() {
  const loaded = useLoaded();
  const deployments = useDeployments();
  const nodes = useNodes();
  const slots = useMemo(() => slotsOf(nodes), [nodes]);
  const [params, setParams] = useSearchParams();
  const open = (key: string, value: string): void => setParams({ [key]: value });
  const close = (): void => setParams({});

  return (
    <Page
      title="Pools"
      description={loaded && deployments.length > 0 ? <SlotsNote slots={slots} /> : undefined}
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => open("deploy", "")}>
          Deploy a model
        </Button>
      }
    >
      {!loaded && <Loading rows={2} height={260} />}
      {loaded && deployments.length === 0 && (
        <Empty icon={<IconStack2 />} title="Nothing is deployed">
          A deployment serves one model with a prefill pool and a decode pool. Both can be resized here while requests
          run.
        </Empty>
      )}
      <Stack gap={40}>
        {deployments.map((deployment) => (
          <DeploymentSection
            key={deployment.name}
            deployment={deployment}
            slots={slots}
            onShowLog={(workerId) => open("log", workerId)}
          />
        ))}
      </Stack>
      <DeployDialog opened={params.has("deploy")} slots={slots} onClose={close} />
      <LogDrawer workerId={params.get("log")} onClose={close} />
    </Page>
  );
}
