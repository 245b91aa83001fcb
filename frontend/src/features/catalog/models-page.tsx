import { Anchor, Button, Paper, Table, Text } from "@mantine/core";
import { IconBox, IconPlus } from "@tabler/icons-react";
import { Link, useSearchParams } from "react-router";
import { CopyIcon } from "@/components/copy";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { ago, bytes } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useDeployments, useLoaded, useModels, useServerNow } from "@/live/hooks";
import { AddModelDialog } from "./add-model-dialog";
import classes from "./catalog.module.css";
import { ModelDrawer } from "./model-drawer";
import { parametersInWords } from "./shape";

/** What is open lies in the address: `?add` the dialog, `?model=<name>` one model. */
export function ModelsPage() {
  const loaded = useLoaded();
  const models = useModels();
  const [params, setParams] = useSearchParams();
  const mayChange = useMay();
  return (
    <Page
      title="Models"
      description="What can be deployed: directories on the nodes, ids on the Hugging Face hub, or web addresses."
      actions={
        mayChange && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
            Add a model
          </Button>
        )
      }
    >
      {!loaded && <Loading rows={1} height={160} />}
      {loaded && models.length === 0 && (
        <Empty icon={<IconBox />} title="The catalogue is empty">
          Add a directory with a causal language model in Hugging Face format, or the id of one on the hub.
        </Empty>
      )}
      {models.length > 0 && <ModelTable onOpen={(model) => setParams({ model })} />}
      <AddModelDialog opened={mayChange && params.has("add")} onClose={() => setParams({})} />
      <ModelDrawer name={params.get("model")} onClose={() => setParams({})} />
    </Page>
  );
}

function ModelTable({ onOpen }: { readonly onOpen: (model: string) => void }) {
  const mayDeploy = useMay();
  const models = useModels();
  const deployments = useDeployments();
  const now = useServerNow(30_000);
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th visibleFrom="sm">Weights</Table.Th>
            <Table.Th ta="right" visibleFrom="xs">
              Parameters
            </Table.Th>
            <Table.Th ta="right" visibleFrom="md" className="nowrap">
              KV a token
            </Table.Th>
            <Table.Th>Served as</Table.Th>
            <Table.Th visibleFrom="sm">Added</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {models.map((model) => {
            const served = deployments.filter((deployment) => deployment.model === model.name);
            return (
              <Table.Tr key={model.name}>
                <Table.Td>
                  <button type="button" className={classes.open} onClick={() => onOpen(model.name)}>
                    {model.name}
                  </button>
                  {model.description !== "" && (
                    <Text size="xs" c="dimmed">
                      {model.description}
                    </Text>
                  )}
                  <Text size="xs" c="dimmed" hiddenFrom="sm">
                    <WeightsPath path={model.path} />
                  </Text>
                </Table.Td>
                <Table.Td visibleFrom="sm">
                  <WeightsPath path={model.path} />
                </Table.Td>
                <Table.Td ta="right" className="figures" visibleFrom="xs">
                  {parametersInWords(model.shape)}
                </Table.Td>
                <Table.Td ta="right" className="figures" visibleFrom="md">
                  {bytes(model.kv_bytes_per_token)}
                </Table.Td>
                <Table.Td>
                  {served.length === 0 ? (
                    mayDeploy && (
                      <Anchor
                        component={Link}
                        to={`/pools?deploy=${encodeURIComponent(model.name)}`}
                        size="sm"
                        c="dimmed"
                      >
                        Deploy it
                      </Anchor>
                    )
                  ) : (
                    <Anchor component={Link} to="/pools" size="sm">
                      {served.map((deployment) => deployment.name).join(", ")}
                    </Anchor>
                  )}
                </Table.Td>
                <Table.Td visibleFrom="sm">
                  <Text size="sm" c="dimmed" className="figures nowrap">
                    {ago(model.created_at, now)}
                  </Text>
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

function WeightsPath({ path }: { readonly path: string }) {
  return (
    <>
      <span className="mono" style={{ overflowWrap: "anywhere" }}>
        {path}
      </span>{" "}
      <CopyIcon value={path} label="Copy the path" />
    </>
  );
}
