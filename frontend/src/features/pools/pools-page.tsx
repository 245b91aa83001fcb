import { Button, Stack } from "@mantine/core";
import { IconPlus, IconStack2 } from "@tabler/icons-react";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { useMay } from "@/lib/who";
import { useDeployments, useLoaded, useNodes } from "@/live/hooks";
import { DeployDialog } from "./deploy-dialog";
import { DeploymentSection } from "./deployment-section";
import { slotsOf } from "./slots";
import { SlotsNote } from "./slots-note";
import { useShown } from "./use-shown";
import { WorkerDrawer } from "./worker-drawer";

/** What is open lies in the address: `?deploy=<model>` the dialog, `?worker=<id>` one of them; `?deployment=<name>` and
 * `?pool=<id>` come into sight. */
export function PoolsPage() {
  const loaded = useLoaded();
  const deployments = useDeployments();
  const nodes = useNodes();
  const slots = useMemo(() => slotsOf(nodes), [nodes]);
  const [params, setParams] = useSearchParams();
  const open = (key: string, value: string): void => setParams({ [key]: value });
  const close = (): void => setParams({});
  const mayDeploy = useMay();
  const deploying = params.get("deploy");
  useShown(deployments, params);

  return (
    <Page
      title="Pools"
      description={loaded && deployments.length > 0 ? <SlotsNote slots={slots} /> : undefined}
      actions={
        mayDeploy && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => open("deploy", "")}>
            Deploy a model
          </Button>
        )
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
            onOpenWorker={(workerId) => open("worker", workerId)}
          />
        ))}
      </Stack>
      {loaded && mayDeploy && deploying !== null && <DeployDialog model={deploying} slots={slots} onClose={close} />}
      <WorkerDrawer workerId={params.get("worker")} onClose={close} />
    </Page>
  );
}
