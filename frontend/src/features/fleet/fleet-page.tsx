import { Button, Tabs } from "@mantine/core";
import { IconPlus, IconServer } from "@tabler/icons-react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { NodeDesired } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useLoaded, useNodes } from "@/live/hooks";
import { AddNodeDialog } from "./add-node-dialog";
import { JoinTokens } from "./join-tokens";
import { Network } from "./network";
import { NodeList } from "./node-list";

/** What is open lies in the address: `?add` the dialog, `?tab=network|tokens`, `?node=<name>` one node. */
export function FleetPage() {
  const loaded = useLoaded();
  const nodes = useNodes();
  const mayChange = useMay();
  const [params, setParams] = useSearchParams();
  const tab = params.get("tab") ?? "nodes";
  const add = mayChange && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
      Add a node
    </Button>
  );
  return (
    <Page title="Fleet" description={loaded && nodes.length > 0 ? summary(nodes) : undefined} actions={add}>
      <Tabs
        value={tab}
        onChange={(next) => setParams(next === null || next === "nodes" ? {} : { tab: next })}
        keepMounted={false}
      >
        <Tabs.List mb="lg">
          <Tabs.Tab value="nodes">Nodes</Tabs.Tab>
          <Tabs.Tab value="network">Network</Tabs.Tab>
          <Tabs.Tab value="tokens">Join tokens</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="nodes">
          {!loaded && <Loading rows={2} height={200} />}
          {loaded && nodes.length === 0 && (
            <Empty icon={<IconServer />} title="No nodes yet">
              A node brings the devices that workers run on. Adding one takes a single command on the machine.
            </Empty>
          )}
          {nodes.length > 0 && <NodeList key={params.get("node")} named={params.get("node") ?? ""} />}
        </Tabs.Panel>
        <Tabs.Panel value="network">
          <Network />
        </Tabs.Panel>
        <Tabs.Panel value="tokens">
          <JoinTokens />
        </Tabs.Panel>
      </Tabs>
      <AddNodeDialog opened={mayChange && params.has("add")} onClose={() => setParams({})} />
    </Page>
  );
}

function summary(nodes: ReturnType<typeof useNodes>): string {
  const ours = nodes.filter((node) => node.desired !== NodeDesired.RETIRED);
  const devices = ours.flatMap((node) => node.devices);
  const free = devices.filter((device) => device.worker_id === null).length;
  return `${plural(ours.length, "node")}, ${plural(devices.length, "device")}, ${free} free`;
}
