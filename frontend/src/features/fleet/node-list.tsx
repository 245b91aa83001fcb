import { Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { useDeployments, useNodes } from "@/live/hooks";
import { NodeCard } from "./node-card";
import { filtered, STATE_FILTERS } from "./node-states";

/** Cards are tall, and a fleet may have hundreds. */
const SHOWN_AT_ONCE = 20;

/** All nodes, narrowed by name and state. named: where the address names one. */
export function NodeList({ named }: { readonly named: string }) {
  const nodes = useNodes();
  const deployments = useDeployments();
  const [text, setText] = useState(named);
  const [state, setState] = useState("current");
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const found = filtered(nodes, { text, state });
  return (
    <Stack gap="md">
      <Group gap="xs">
        <TextInput
          aria-label="Search nodes"
          placeholder="Name, address or label"
          leftSection={<IconSearch size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          flex="1 1 220px"
          maw={360}
        />
        <Select
          aria-label="State of nodes"
          data={STATE_FILTERS}
          value={state}
          onChange={(next) => setState(next ?? "current")}
          w={170}
        />
      </Group>
      {found.length === 0 && (
        <Text size="sm" c="dimmed" py="lg">
          No node is like that.
        </Text>
      )}
      {found.slice(0, shown).map((node) => (
        <NodeCard key={node.id} node={node} deployments={deployments} />
      ))}
      {found.length > shown && (
        <Group justify="center">
          <Button variant="default" onClick={() => setShown(shown + SHOWN_AT_ONCE)}>
            Show {Math.min(SHOWN_AT_ONCE, found.length - shown)} more of {found.length - shown}
          </Button>
        </Group>
      )}
    </Stack>
  );
}
