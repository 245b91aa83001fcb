import { ActionIcon, Button, Group, Menu, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconDots, IconMessage, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { OperationState, Role, type DeploymentView, type OperationView } from "@/generated/contracts";
import { OperationProgress } from "@/components/operation";
import { Status } from "@/components/status";
import { useOperations, useServerNow } from "@/live/hooks";
import { DeleteDialog } from "./delete-dialog";
import { PoolCard } from "./pool-card";
import type { Slots } from "./slots";

interface DeploymentSectionProps {
  readonly deployment: DeploymentView;
  readonly slots: readonly Slots[];
  readonly onShowLog: (workerId: string) => void;
}

const ROLE_ORDER: readonly Role[] = [Role.PREFILL, Role.DECODE, Role.UNIFIED];

export function DeploymentSection({ deployment, slots, onShowLog }: DeploymentSectionProps) {
  const [deleting, setDeleting] = useState(false);
  const pools = [...deployment.pools].sort((a, b) => ROLE_ORDER.indexOf(a.role) - ROLE_ORDER.indexOf(b.role));
  return (
    <Stack component="section" gap="sm" aria-label={`Deployment ${deployment.name}`} id={deployment.name}>
      <Group justify="space-between" gap="sm" wrap="nowrap">
        <div>
          <Group gap="sm">
            <Title order={2}>{deployment.name}</Title>
            <DeploymentStatus deployment={deployment} />
          </Group>
          <Text size="sm" c="dimmed">
            {deployment.model === deployment.name ? "" : `Model ${deployment.model}. `}
            {deployment.local_prefill_tokens > 0
              ? `Prompts of up to ${deployment.local_prefill_tokens} tokens are read by decode itself.`
              : "Every prompt is read by the prefill pool."}
          </Text>
        </div>
        <Group gap="xs" wrap="nowrap">
          <Button
            component={Link}
            to={`/playground?model=${encodeURIComponent(deployment.name)}`}
            variant="default"
            leftSection={<IconMessage size={16} />}
            visibleFrom="xs"
          >
            Try it
          </Button>
          <Menu position="bottom-end">
            <Menu.Target>
              <ActionIcon size="lg" variant="default" aria-label={`More about ${deployment.name}`}>
                <IconDots size={16} />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item
                component={Link}
                to={`/playground?model=${encodeURIComponent(deployment.name)}`}
                leftSection={<IconMessage size={16} />}
                hiddenFrom="xs"
              >
                Try it
              </Menu.Item>
              <Menu.Item
                color="red"
                leftSection={<IconTrash size={16} />}
                disabled={deployment.deleting}
                onClick={() => setDeleting(true)}
              >
                Delete this deployment
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </Group>
      </Group>
      <CurrentOperations deployment={deployment} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        {pools.map((pool) => (
          <PoolCard key={pool.id} pool={pool} slots={slots} deleting={deployment.deleting} onShowLog={onShowLog} />
        ))}
      </SimpleGrid>
      <DeleteDialog opened={deleting} deployment={deployment} onClose={() => setDeleting(false)} />
    </Stack>
  );
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
  return operation.target === deployment.name || operation.target.startsWith(`${deployment.name}/`);
}

function isCurrent(operation: OperationView, now: number): boolean {
  if (operation.state === OperationState.RUNNING || operation.finished_at === null) return true;
  return (now - Date.parse(operation.finished_at)) / 1000 < SHOWN_AFTER_END_S;
}
