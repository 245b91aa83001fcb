import { Button, Drawer, Paper, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconAdjustments, IconCode, IconEraser, IconMessage } from "@tabler/icons-react";
import { useEffect, useRef } from "react";
import { Link, useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { useDeployments, useLoaded } from "@/live/hooks";
import { Composer } from "./composer";
import { chat, isBusy, useConversation, type Conversation } from "./conversation";
import classes from "./playground.module.css";
import { SettingsPanel } from "./settings-panel";
import { SnippetDialog } from "./snippet-dialog";
import { TurnView } from "./turn";

/** `?model=<name>` chooses the model. */
export function PlaygroundPage() {
  const loaded = useLoaded();
  const models = useDeployments().filter((deployment) => !deployment.deleting);
  const conversation = useConversation();
  const [params, setParams] = useSearchParams();
  const linked = params.get("model");
  useEffect(() => {
    if (linked === null) return;
    chat.set({ model: linked });
    setParams({}, { replace: true });
  }, [linked, setParams]);

  const chosen =
    models.find((one) => one.name === conversation.settings.model) ?? models.find((one) => one.serving) ?? models[0];
  const model = chosen?.name ?? null;
  const [snippet, snippetDialog] = useDisclosure(false);
  const [settings, settingsDrawer] = useDisclosure(false);
  const panel = <SettingsPanel settings={conversation.settings} model={model} models={models.map((one) => one.name)} />;

  if (!loaded) return <Page title="Playground">{<Loading rows={2} height={160} />}</Page>;
  if (model === null) {
    return (
      <Page title="Playground">
        <Empty
          icon={<IconMessage />}
          title="There is no model to talk to"
          action={
            <Button component={Link} to="/pools?deploy" variant="default">
              Deploy a model
            </Button>
          }
        >
          Once a model is deployed, ask it something here and see where each answer&apos;s time goes.
        </Empty>
      </Page>
    );
  }
  return (
    <Page
      title="Playground"
      actions={
        <>
          <Button
            variant="default"
            leftSection={<IconAdjustments size={16} />}
            onClick={settingsDrawer.open}
            hiddenFrom="md"
          >
            Settings
          </Button>
          <Button
            variant="default"
            leftSection={<IconCode size={16} />}
            onClick={snippetDialog.open}
            aria-label="Use the API"
          >
            API
          </Button>
          <Button
            variant="default"
            leftSection={<IconEraser size={16} />}
            onClick={() => chat.clear()}
            disabled={conversation.turns.length === 0}
          >
            Clear
          </Button>
        </>
      }
    >
      <div className={classes.layout}>
        <div className={classes.chat}>
          <Turns conversation={conversation} model={model} serving={chosen?.serving ?? false} />
          <Composer model={model} busy={isBusy(conversation)} />
        </div>
        <Paper p="md" className={classes.side} component="aside" aria-label="Settings" visibleFrom="md">
          {panel}
        </Paper>
      </div>
      <Drawer opened={settings} onClose={settingsDrawer.close} title="Settings" size="sm">
        {panel}
      </Drawer>
      <SnippetDialog opened={snippet} onClose={snippetDialog.close} conversation={conversation} model={model} />
    </Page>
  );
}

interface TurnsProps {
  readonly conversation: Conversation;
  readonly model: string;
  readonly serving: boolean;
}

function Turns({ conversation: { turns }, model, serving }: TurnsProps) {
  const end = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  const written = turns.at(-1)?.answer;
  useEffect(() => {
    const note = (): void => {
      const { scrollHeight, clientHeight } = document.documentElement;
      follow.current = scrollHeight - window.scrollY - clientHeight < 120;
    };
    window.addEventListener("scroll", note, { passive: true });
    return () => window.removeEventListener("scroll", note);
  }, []);
  useEffect(() => {
    if (follow.current && turns.length > 0) end.current?.scrollIntoView({ block: "end" });
  }, [turns.length, written]);
  return (
    <div className={classes.turns} role="log" aria-label="Conversation" aria-busy={written?.state === "streaming"}>
      {turns.length === 0 && (
        <div className={classes.welcome}>
          <Text fw={600}>Ask {model} something</Text>
          <Text size="sm" c="dimmed">
            {serving
              ? "Each answer shows its TTFT and TPOT, the workers it went through, and where the time to its first token went."
              : "It isn't ready to answer yet: look at the pools for what it waits for."}
          </Text>
        </div>
      )}
      {turns.map((turn, at) => (
        <TurnView key={turn.id} turn={turn} isLast={at === turns.length - 1} />
      ))}
      <div ref={end} className={classes.end} />
    </div>
  );
}
