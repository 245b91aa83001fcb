import { Button, Stack } from "@mantine/core";
import { IconPlus, IconServer } from "@tabler/icons-react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { plural } from "@/lib/format";
import { useDeployments, useLoaded, useNodes } from "@/live/hooks";
import { AddNodeDialog } from "./add-node-dialog";
import { NodeCard } from "./node-card";

/** `?add` in the address opens the dialog. */
export function FleetPage() {
  const loaded = useLoaded();
  const nodes = useNodes();
  const deployments = useDeployments();
  const [params, setParams] = useSearchParams();
  const add = (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
      Add a node
    </Button>
  );
  return (
    <Page title="Fleet" description={loaded && nodes.length > 0 ? summary(nodes) : undefined} actions={add}>
      {!loaded && <Loading rows={2} height={200} />}
      {loaded && nodes.length === 0 && (
        <Empty icon={<IconServer />} title="No nodes yet">
          A node brings the devices that workers run on. Adding one takes a single command on the machine.
        </Empty>
      )}
      <Stack gap="md">
        {nodes.map((node) => (
          <NodeCard key={node.id} node={node} deployments={deployments} />
        ))}
      </Stack>
      <AddNodeDialog opened={params.has("add")} onClose={() => setParams({})} />
    </Page>
  );
}

function summary(nodes: ReturnType<typeof useNodes>): string {
  const devices = nodes.flatMap((node) => node.devices);
  const free = devices.filter((device) => device.worker_id === null).length;
  return `${plural(nodes.length, "node")}, ${plural(devices.length, "device")}, ${free} free`;
}
