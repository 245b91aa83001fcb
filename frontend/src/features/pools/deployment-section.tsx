import { ActionIcon, Button, Group, Menu, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import {
  IconAdjustments,
  IconArrowsLeftRight,
  IconDots,
  IconHistory,
  IconMessage,
  IconRocket,
  IconTrash,
} from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { Role, UserRole, type DeploymentView, type OperationView } from "@/generated/contracts";
import { OperationProgress } from "@/components/operation";
import { Status } from "@/components/status";
import { duration } from "@/lib/format";
import { useMay } from "@/lib/who";
import { useOperations, useServerNow } from "@/live/hooks";
import { DeleteDialog } from "./delete-dialog";
import { DeploymentSettingsDialog } from "./deployment-settings-dialog";
import { PoolCard } from "./pool-card";
import { pairOf } from "./rebalance-draft";
import { RebalanceDialog } from "./rebalance-dialog";
import { RevisionsDrawer } from "./revisions-drawer";
import { RollOutDialog } from "./roll-out-dialog";
import { RolloutPanel } from "./rollout-panel";
import type { Slots } from "./slots";

interface DeploymentSectionProps {
  readonly deployment: DeploymentView;
  readonly slots: readonly Slots[];
  readonly onOpenWorker: (workerId: string) => void;
}

const ROLE_ORDER: readonly Role[] = [Role.PREFILL, Role.DECODE, Role.UNIFIED];

type Open = "rebalance" | "settings" | "roll-out" | "revisions" | "delete";

export function DeploymentSection({ deployment, slots, onOpenWorker }: DeploymentSectionProps) {
  const [open, setOpen] = useState<Open | null>(null);
  const mayChange = useMay(UserRole.OPERATOR, deployment.name);
  const pools = [...deployment.pools].sort((a, b) => ROLE_ORDER.indexOf(a.role) - ROLE_ORDER.indexOf(b.role));
  const pair = pairOf(deployment);
  const close = (): void => setOpen(null);
  return (
    <Stack component="section" gap="sm" aria-label={`Deployment ${deployment.name}`} id={deployment.name}>
      <Head deployment={deployment} mayChange={mayChange} onOpen={setOpen} />
      {deployment.rollout !== null && (
        <RolloutPanel deployment={deployment} rollout={deployment.rollout} mayChange={mayChange} />
      )}
      <CurrentOperations deployment={deployment} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        {pools.map((pool) => (
          <PoolCard
            key={pool.id}
            pool={pool}
            slots={slots}
            deployment={deployment}
            mayChange={mayChange}
            onOpenWorker={onOpenWorker}
          />
        ))}
      </SimpleGrid>
      {open === "rebalance" && pair !== null && (
        <RebalanceDialog deployment={deployment} pools={pair} onClose={close} />
      )}
      {open === "settings" && <DeploymentSettingsDialog name={deployment.name} onClose={close} />}
      <RollOutDialog opened={open === "roll-out"} deployment={deployment} onClose={close} />
      <RevisionsDrawer opened={open === "revisions"} deployment={deployment} mayChange={mayChange} onClose={close} />
      <DeleteDialog opened={open === "delete"} deployment={deployment} onClose={close} />
    </Stack>
  );
}

interface HeadProps {
  readonly deployment: DeploymentView;
  readonly mayChange: boolean;
  readonly onOpen: (open: Open) => void;
}

function Head({ deployment, mayChange, onOpen }: HeadProps) {
  const isChangeable = mayChange && !deployment.deleting;
  const playground = `/playground?model=${encodeURIComponent(deployment.name)}`;
  return (
    <Group justify="space-between" gap="sm" wrap="nowrap" align="flex-start">
      <div>
        <Group gap="sm">
          <Title order={2}>{deployment.name}</Title>
          <DeploymentStatus deployment={deployment} />
        </Group>
        <Text size="sm" c="dimmed">
          {aboutOf(deployment)}
        </Text>
      </div>
      <Group gap="xs" wrap="nowrap">
        {isChangeable && pairOf(deployment) !== null && (
          <Button
            variant="default"
            leftSection={<IconArrowsLeftRight size={16} />}
            onClick={() => onOpen("rebalance")}
            visibleFrom="sm"
          >
            Rebalance
          </Button>
        )}
        <Button
          component={Link}
          to={playground}
          variant="default"
          leftSection={<IconMessage size={16} />}
          visibleFrom="sm"
        >
          Try it
        </Button>
        <Menu position="bottom-end" width={230}>
          <Menu.Target>
            <ActionIcon size="lg" variant="default" aria-label={`More about ${deployment.name}`}>
              <IconDots size={16} />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item component={Link} to={playground} leftSection={<IconMessage size={16} />} hiddenFrom="sm">
              Try it
            </Menu.Item>
            {isChangeable && pairOf(deployment) !== null && (
              <Menu.Item
                leftSection={<IconArrowsLeftRight size={16} />}
                onClick={() => onOpen("rebalance")}
                hiddenFrom="sm"
              >
                Rebalance
              </Menu.Item>
            )}
            {isChangeable && (
              <Menu.Item leftSection={<IconAdjustments size={16} />} onClick={() => onOpen("settings")}>
                Settings and targets
              </Menu.Item>
            )}
            {isChangeable && (
              <Menu.Item leftSection={<IconRocket size={16} />} onClick={() => onOpen("roll-out")}>
                Roll out a revision
              </Menu.Item>
            )}
            <Menu.Item leftSection={<IconHistory size={16} />} onClick={() => onOpen("revisions")}>
              Revisions
            </Menu.Item>
            {mayChange && (
              <Menu.Item
                color="red"
                leftSection={<IconTrash size={16} />}
                disabled={deployment.deleting}
                onClick={() => onOpen("delete")}
              >
                Delete this deployment
              </Menu.Item>
            )}
          </Menu.Dropdown>
        </Menu>
      </Group>
    </Group>
  );
}

/** What it serves, how prompts go, what is promised. */
function aboutOf(deployment: DeploymentView): string {
  const { name, model, local_prefill_tokens: local, slo_ttft_s: ttft, slo_tpot_s: tpot } = deployment;
  const promises = [
    ttft === null ? null : `TTFT ${duration(ttft)}`,
    tpot === null ? null : `TPOT ${duration(tpot)}`,
  ].filter((promise) => promise !== null);
  return [
    model === name ? null : `Model ${model}.`,
    pairOf(deployment) === null ? null : readsOf(local),
    promises.length === 0 ? null : `Promised: ${promises.join(", ")}.`,
  ]
    .filter((sentence) => sentence !== null)
    .join(" ");
}

function readsOf(local: number): string {
  return local > 0
    ? `Prompts of up to ${local} tokens are read by decode itself.`
    : "Every prompt is read by the prefill pool.";
}

function DeploymentStatus({ deployment }: { readonly deployment: DeploymentView }) {
  const label = deployment.status.replace(/\.$/, "");
  if (deployment.deleting) {
    return (
      <Status tone="busy" moving>
        {label}
      </Status>
    );
  }
  return <Status tone={deployment.serving ? "good" : "warn"}>{label}</Status>;
}

/** How long an operation stays in sight here after its end. */
const SHOWN_AFTER_END_S = 60;

/** What is being changed on this deployment now, and what was just changed. */
function CurrentOperations({ deployment }: { readonly deployment: DeploymentView }) {
  const now = useServerNow();
  const shown = useOperations().filter((operation) => concerns(operation, deployment) && isCurrent(operation, now));
  return shown.map((operation) => <OperationProgress key={operation.id} operation={operation} nowMs={now} />);
}

function concerns(operation: OperationView, deployment: DeploymentView): boolean {
  if (operation.id === deployment.rollout?.operation_id) return false; // it has a panel of its own
  const ids = new Set([
    ...deployment.pools.map((pool) => pool.id),
    ...deployment.pools.flatMap((pool) => pool.workers.map((worker) => worker.id)),
  ]);
  return operation.targets.some(({ kind, id, name }) =>
    kind === "deployment" ? name === deployment.name : ids.has(id),
  );
}

function isCurrent(operation: OperationView, now: number): boolean {
  if (operation.finished_at === null) return true;
  return (now - Date.parse(operation.finished_at)) / 1000 < SHOWN_AFTER_END_S;
}
