import { Button, Group, Paper, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { Link } from "react-router";
import { NodePhase } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { useModels, useNodes } from "@/live/hooks";

/** Nothing is deployed yet: what to do, in order, and what is done already. */
export function FirstSteps() {
  const nodes = useNodes().filter((node) => node.phase === NodePhase.READY);
  const models = useModels();
  return (
    <Paper p="xl" maw={720}>
      <Title order={2}>Serve your first model</Title>
      <Text size="sm" c="dimmed" mt={4} mb="lg">
        Tandem runs one model on two pools of workers: prefill reads prompts, decode writes answers, and the KV cache is
        handed from one to the other.
      </Text>
      <Stack gap="md">
        <Step
          at={1}
          done={nodes.length > 0}
          title={nodes.length > 0 ? `${plural(nodes.length, "node")} ready` : "Add a node"}
          text="A machine with GPUs, or with processor cores to spare."
          to="/fleet?add"
          action="Add a node"
        />
        <Step
          at={2}
          done={models.length > 0}
          title={models.length > 0 ? `${plural(models.length, "model")} in the catalogue` : "Add a model"}
          text="A directory on the nodes, or a Hugging Face id."
          to="/models?add"
          action="Add a model"
        />
        <Step
          at={3}
          done={false}
          title="Deploy it"
          text="Choose how many prefill and decode workers it gets; change it at any time."
          to="/pools?deploy"
          action="Deploy a model"
        />
      </Stack>
    </Paper>
  );
}

interface StepProps {
  readonly at: number;
  readonly done: boolean;
  readonly title: string;
  readonly text: string;
  readonly to: string;
  readonly action: string;
}

function Step({ at, done, title, text, to, action }: StepProps) {
  return (
    <Group wrap="nowrap" align="flex-start">
      <ThemeIcon radius="xl" variant="light" color={done ? "green" : "gray"}>
        {done ? <IconCheck size={16} aria-label="Done" /> : <Text size="sm">{at}</Text>}
      </ThemeIcon>
      <div style={{ flex: 1 }}>
        <Text fw={550}>{title}</Text>
        <Text size="sm" c="dimmed">
          {text}
        </Text>
      </div>
      {!done && (
        <Button component={Link} to={to} variant="default" size="xs">
          {action}
        </Button>
      )}
    </Group>
  );
}
