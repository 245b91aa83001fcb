import { Button, Group, MultiSelect, Progress, Table, Text, Title } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useState } from "react";
import { OperationProgress } from "@/components/operation";
import { Failure, Loading } from "@/components/states";
import { Status, type Tone } from "@/components/status";
import {
  FetchState,
  ModelSource,
  NodeDesired,
  NodePhase,
  OperationKind,
  type ModelView,
  type WeightsView,
} from "@/generated/contracts";
import { bytes, percent } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useNodes, useOperations, useServerNow } from "@/live/hooks";
import { OperateDialog } from "@/operate/operate-dialog";
import { useWeights } from "./api/model-facts";

const STATE: Readonly<Record<FetchState, readonly [Tone, string]>> = {
  [FetchState.ABSENT]: ["busy", "Not there"],
  [FetchState.WANTED]: ["busy", "Wanted"],
  [FetchState.FETCHING]: ["busy", "Fetching"],
  [FetchState.PRESENT]: ["good", "Present"],
  [FetchState.FAILED]: ["bad", "Failed"],
};

/** On which nodes the weights are or are being fetched, and fetching them. */
export function Weights({ model }: { readonly model: ModelView }) {
  const now = useServerNow();
  const mayChange = useMay();
  const [asking, setAsking] = useState(false);
  const running = useOperations().filter(
    (operation) =>
      operation.kind === OperationKind.FETCH_WEIGHTS &&
      operation.finished_at === null &&
      operation.targets.some((target) => target.kind === "model" && target.name === model.name),
  );
  const weights = useWeights(model.name, running.length > 0);
  const canFetch = model.source !== ModelSource.DIRECTORY;
  return (
    <section data-testid="weights">
      <Group justify="space-between" mb="xs">
        <Title order={3}>Where its weights are</Title>
        {mayChange && canFetch && (
          <Button size="xs" variant="default" leftSection={<IconDownload size={14} />} onClick={() => setAsking(true)}>
            Fetch
          </Button>
        )}
      </Group>
      {running.map((operation) => (
        <OperationProgress key={operation.id} operation={operation} nowMs={now} />
      ))}
      {weights.isError && <Failure error={weights.error} title="That can't be shown" />}
      {weights.isPending && <Loading rows={1} height={80} />}
      {weights.data?.length === 0 && (
        <Text size="sm" c="dimmed">
          {canFetch
            ? "No node was asked to fetch them. Workers fetch them at their first start."
            : "People put them there: each node has to have this directory."}
        </Text>
      )}
      {weights.data && weights.data.length > 0 && <Nodes weights={weights.data} />}
      {asking && <FetchDialog model={model} weights={weights.data ?? []} onClose={() => setAsking(false)} />}
    </section>
  );
}

function Nodes({ weights }: { readonly weights: readonly WeightsView[] }) {
  return (
    <Table horizontalSpacing="xs" verticalSpacing="xs">
      <Table.Tbody>
        {weights.map((one) => {
          const [tone, label] = STATE[one.state];
          return (
            <Table.Tr key={one.node_id + one.revision} data-testid="weights-row" data-state={one.state}>
              <Table.Td w="34%">
                <Text size="sm" fw={550}>
                  {one.node_name}
                </Text>
                {one.revision !== "" && (
                  <Text size="xs" c="dimmed" className="mono">
                    {one.revision}
                  </Text>
                )}
              </Table.Td>
              <Table.Td>
                <Status tone={tone} moving={one.state === FetchState.FETCHING}>
                  {label}
                </Status>
                {one.reason !== "" && (
                  <Text size="xs" c={one.state === FetchState.FAILED ? "var(--bad)" : "dimmed"}>
                    {one.reason}
                  </Text>
                )}
              </Table.Td>
              <Table.Td className="figures" w="34%" ta="right">
                <Fetched weights={one} />
              </Table.Td>
            </Table.Tr>
          );
        })}
      </Table.Tbody>
    </Table>
  );
}

function Fetched({ weights: { state, fetched_bytes: fetched, size_bytes: size } }: { readonly weights: WeightsView }) {
  if (state !== FetchState.FETCHING) return bytes(size);
  const share = fetched === null || size === null || size === 0 ? null : fetched / size;
  return (
    <>
      {bytes(fetched)} of {bytes(size)} ({percent(share)})
      {share !== null && <Progress value={share * 100} size={4} color="gray" mt={4} aria-label="Fetched" />}
    </>
  );
}

interface FetchDialogProps {
  readonly model: ModelView;
  readonly weights: readonly WeightsView[];
  readonly onClose: () => void;
}

function FetchDialog({ model, weights, onClose }: FetchDialogProps) {
  const present = new Set(weights.filter((one) => one.state === FetchState.PRESENT).map((one) => one.node_id));
  const nodes = useNodes().filter((node) => node.phase === NodePhase.READY && node.desired !== NodeDesired.RETIRED);
  const [chosen, setChosen] = useState<string[]>(nodes.filter((node) => !present.has(node.id)).map((node) => node.id));
  return (
    <OperateDialog
      opened
      onClose={onClose}
      title={`Fetch ${model.name}`}
      ask={{ method: "POST", path: `/models/${encodeURIComponent(model.name)}/fetch`, body: { nodes: chosen } }}
      confirm="Fetch"
      refused="Nothing is fetched"
      disabled={chosen.length === 0}
      testId="fetch-dialog"
    >
      <Text size="sm">Onto the disks of these nodes, before workers need it.</Text>
      <MultiSelect
        label="Nodes"
        data={nodes.map((node) => ({ value: node.id, label: node.name }))}
        value={chosen}
        onChange={setChosen}
        searchable
        clearable
      />
    </OperateDialog>
  );
}
