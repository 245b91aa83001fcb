import { Anchor, Button, Paper, Table, Text } from "@mantine/core";
import { IconBox, IconPlus } from "@tabler/icons-react";
import { Link, useSearchParams } from "react-router";
import { CopyIcon } from "@/components/copy";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { ago } from "@/lib/format";
import { useDeployments, useLoaded, useModels, useServerNow } from "@/live/hooks";
import { AddModelDialog } from "./add-model-dialog";

/** `?add` in the address opens the dialog. */
export function ModelsPage() {
  const loaded = useLoaded();
  const models = useModels();
  const [params, setParams] = useSearchParams();
  return (
    <Page
      title="Models"
      description="What can be deployed: local directories, or ids on the Hugging Face hub."
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
          Add a model
        </Button>
      }
    >
      {!loaded && <Loading rows={1} height={160} />}
      {loaded && models.length === 0 && (
        <Empty icon={<IconBox />} title="The catalogue is empty">
          Add a directory with a causal language model in Hugging Face format, or the id of one on the hub.
        </Empty>
      )}
      {models.length > 0 && <ModelTable />}
      <AddModelDialog opened={params.has("add")} onClose={() => setParams({})} />
    </Page>
  );
}

function ModelTable() {
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
                  <Text size="sm" fw={550}>
                    {model.name}
                  </Text>
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
                <Table.Td>
                  {served.length === 0 ? (
                    <Anchor component={Link} to="/pools?deploy" size="sm" c="dimmed">
                      Deploy it
                    </Anchor>
                  ) : (
                    <Anchor component={Link} to="/pools" size="sm">
                      {served.map((deployment) => deployment.name).join(", ")}
                    </Anchor>
                  )}
                </Table.Td>
                <Table.Td visibleFrom="sm">
                  <Text size="sm" c="dimmed" className="figures">
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
