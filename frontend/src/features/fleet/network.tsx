import { Button, Group, MultiSelect, Paper, ScrollArea, Stack, Text, Tooltip } from "@mantine/core";
import { IconAffiliate, IconRadar2 } from "@tabler/icons-react";
import { useState } from "react";
import { OperationProgress } from "@/components/operation";
import { Empty, Failure, Loading } from "@/components/states";
import { NodeDesired, NodePhase, OperationKind } from "@/generated/contracts";
import { ago, bytes, dateTime, duration, plural } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useNodes, useOperations, useServerNow } from "@/live/hooks";
import { OperateDialog } from "@/operate/operate-dialog";
import { useLinks } from "./api/list-links";
import classes from "./fleet.module.css";
import { cellsOf, type Cell } from "./matrix";

/** More make no table that one can read. */
const NODES_SHOWN = 12;

/** Bandwidth and latency from each node to each other, as last measured with the transfer code itself. */
export function Network() {
  const nodes = useNodes().filter((node) => node.desired !== NodeDesired.RETIRED);
  const mayChange = useMay();
  const now = useServerNow();
  const [chosen, setChosen] = useState<string[]>([]);
  const [asking, setAsking] = useState(false);
  const measuring = useOperations().filter(
    (operation) => operation.kind === OperationKind.MEASURE_NETWORK && operation.finished_at === null,
  );
  const links = useLinks(measuring.length > 0);
  const all = nodes.map((node) => node.name);
  const names = (chosen.length > 0 ? all.filter((name) => chosen.includes(name)) : all).slice(0, NODES_SHOWN);
  const ready = nodes.filter((node) => node.phase === NodePhase.READY && names.includes(node.name));
  if (nodes.length < 2) {
    return (
      <Empty icon={<IconAffiliate />} title="A network needs two nodes">
        With two or more nodes, this shows how fast they hand KV caches to each other.
      </Empty>
    );
  }
  return (
    <Stack gap="md">
      <Group justify="space-between" align="flex-end" gap="sm">
        <MultiSelect
          label="Nodes"
          placeholder={chosen.length === 0 ? (all.length > NODES_SHOWN ? `The first ${NODES_SHOWN}` : "All") : ""}
          data={all}
          value={chosen}
          onChange={setChosen}
          maxValues={NODES_SHOWN}
          searchable
          clearable
          flex="1 1 260px"
          maw={560}
        />
        {mayChange && (
          <Button leftSection={<IconRadar2 size={16} />} disabled={ready.length < 2} onClick={() => setAsking(true)}>
            Measure
          </Button>
        )}
      </Group>
      {measuring.map((operation) => (
        <OperationProgress key={operation.id} operation={operation} nowMs={now} />
      ))}
      {links.isError && <Failure error={links.error} title="The links can't be shown" />}
      {links.isPending && <Loading rows={1} height={200} />}
      {links.data && <Matrix names={names} cells={cellsOf(links.data, names)} nowMs={now} />}
      <OperateDialog
        opened={asking}
        onClose={() => setAsking(false)}
        title="Measure the network"
        ask={{ method: "POST", path: "/links/measure", body: { nodes: ready.map((node) => node.id) } }}
        confirm="Measure"
        refused="Nothing is measured"
        testId="measure-dialog"
      >
        <Text size="sm">
          {plural(ready.length, "node")} send to each other in both directions, a few pairs at a time, with the code
          that hands KV caches over. It takes bandwidth from what is served while it runs.
        </Text>
      </OperateDialog>
    </Stack>
  );
}

interface MatrixProps {
  readonly names: readonly string[];
  readonly cells: readonly (readonly Cell[])[];
  readonly nowMs: number;
}

function Matrix({ names, cells, nowMs }: MatrixProps) {
  return (
    <Paper p="sm">
      <ScrollArea type="auto">
        <table className={classes.matrix} data-testid="network-matrix">
          <thead>
            <tr>
              <th>from ↓ to →</th>
              {names.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((name, row) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {cells[row]?.map((cell, column) => (
                  <LinkCell key={names[column]} cell={cell} nowMs={nowMs} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollArea>
    </Paper>
  );
}

function LinkCell({ cell, nowMs }: { readonly cell: Cell; readonly nowMs: number }) {
  switch (cell.kind) {
    case "self":
      return <td className={classes.cell} data-kind="self" />;
    case "unknown":
      return (
        <td className={classes.cell} data-kind="unknown">
          not measured
        </td>
      );
    case "failed":
      return (
        <Tooltip label={`${cell.error}${cell.at === null ? "" : ` (${dateTime(cell.at)})`}`}>
          <td className={classes.cell} data-kind="failed" tabIndex={0}>
            failed
          </td>
        </Tooltip>
      );
    case "measured":
      return (
        <Tooltip label={`Measured ${ago(cell.at, nowMs)}`}>
          <td
            className={`figures ${classes.cell ?? ""}`}
            data-kind="measured"
            style={{ "--share": cell.share } as React.CSSProperties}
            tabIndex={0}
          >
            <strong>{bytes(cell.bytesPerS)}/s</strong>
            {duration(cell.latencyS)}
          </td>
        </Tooltip>
      );
  }
}
