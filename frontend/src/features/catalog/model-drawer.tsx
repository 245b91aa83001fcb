import { Anchor, Button, Group, Stack, Text, Title } from "@mantine/core";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { CopyIcon } from "@/components/copy";
import { SideDrawer } from "@/components/side-drawer";
import { ModelSource, type ModelView } from "@/generated/contracts";
import { count, dateTime, UNKNOWN } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useDeployments, useModels } from "@/live/hooks";
import classes from "./catalog.module.css";
import { ChangeModelDialog } from "./change-model-dialog";
import { DeleteModelDialog } from "./delete-model-dialog";
import { FitTable } from "./fit-table";
import { enginesOf, kvInWords, parametersInWords, weightsInWords } from "./shape";
import { Weights } from "./weights";

const SOURCE: Readonly<Record<ModelSource, string>> = {
  [ModelSource.DIRECTORY]: "Directory on every node",
  [ModelSource.HUB]: "Model hub",
  [ModelSource.WEB]: "Web address",
};

interface ModelDrawerProps {
  readonly name: string | null;
  readonly onClose: () => void;
}

/** All that is known of one model: what it is made of, where it fits, where its weights are. */
export function ModelDrawer({ name, onClose }: ModelDrawerProps) {
  const model = useModels().find((one) => one.name === name);
  return (
    <SideDrawer opened={name !== null} onClose={onClose} title={name ?? "Model"} size="xl" data-testid="model-drawer">
      {model === undefined ? (
        <Text size="sm" c="dimmed">
          There is no such model in the catalogue.
        </Text>
      ) : (
        <Stack gap="xl">
          <Facts model={model} onDeleted={onClose} />
          <FitTable model={model.name} />
          <Weights model={model} />
        </Stack>
      )}
    </SideDrawer>
  );
}

interface FactsProps {
  readonly model: ModelView;
  readonly onDeleted: () => void;
}

function Facts({ model, onDeleted }: FactsProps) {
  const served = useDeployments().filter((deployment) => deployment.model === model.name);
  const { shape } = model;
  return (
    <section>
      {model.description !== "" && (
        <Text size="sm" mb="sm">
          {model.description}
        </Text>
      )}
      <Group justify="space-between" mb="xs">
        <Title order={3}>What it is</Title>
        <Actions model={model} onDeleted={onDeleted} />
      </Group>
      <dl className={classes.facts}>
        <dt>{SOURCE[model.source]}</dt>
        <dd className="mono">
          {model.path}
          {model.revision !== "" && `@${model.revision}`} <CopyIcon value={model.path} label="Copy the path" />
        </dd>
        <dt>Licence</dt>
        <dd>{model.licence || UNKNOWN}</dd>
        <dt>Architecture</dt>
        <dd>{shape?.architecture || UNKNOWN}</dd>
        <dt>Parameters</dt>
        <dd className="figures">{parametersInWords(shape)}</dd>
        <dt>Context</dt>
        <dd className="figures">{shape?.context_length == null ? UNKNOWN : `${count(shape.context_length)} tokens`}</dd>
        <dt>Weights</dt>
        <dd className="figures">
          {weightsInWords(shape)}
          {shape !== null && shape.quantization !== "" && `, ${shape.quantization}`}
        </dd>
        <dt>KV cache</dt>
        <dd className="figures">{kvInWords(model)}</dd>
        <dt>Engines</dt>
        <dd>
          <Engines model={model} />
        </dd>
        <dt>Told by</dt>
        <dd>{model.shape_from || "nobody yet: it is read from the files, here or on a node that has them"}</dd>
        <dt>Served as</dt>
        <dd>
          {served.length === 0
            ? "nothing at present"
            : served.map((deployment) => (
                <Anchor
                  key={deployment.name}
                  component={Link}
                  to={`/pools?deployment=${encodeURIComponent(deployment.name)}`}
                  size="sm"
                  mr="sm"
                >
                  {deployment.name}
                </Anchor>
              ))}
        </dd>
        <dt>Added</dt>
        <dd className="figures">{dateTime(model.created_at)}</dd>
      </dl>
    </section>
  );
}

function Actions({ model, onDeleted }: FactsProps) {
  const mayChange = useMay();
  const [open, setOpen] = useState<"change" | "delete" | null>(null);
  const close = (): void => setOpen(null);
  if (!mayChange) return null;
  return (
    <Group gap="xs">
      <Button size="xs" variant="default" leftSection={<IconPencil size={14} />} onClick={() => setOpen("change")}>
        Change
      </Button>
      <Button size="xs" variant="default" leftSection={<IconTrash size={14} />} onClick={() => setOpen("delete")}>
        Delete
      </Button>
      {open === "change" && <ChangeModelDialog name={model.name} onClose={close} />}
      {open === "delete" && <DeleteModelDialog name={model.name} onClose={close} onDone={onDeleted} />}
    </Group>
  );
}

function Engines({ model }: { readonly model: ModelView }) {
  const engines = enginesOf(model.shape);
  if (engines === null) return UNKNOWN;
  return engines.map(([engine, why]) => (
    <div key={engine}>
      {engine}:{" "}
      {why === "" ? (
        "can serve it"
      ) : (
        <Text span size="sm" c="var(--bad)">
          {why}
        </Text>
      )}
    </div>
  ));
}
