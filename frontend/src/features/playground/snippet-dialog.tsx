import { Anchor, Modal, Stack, Tabs, Text } from "@mantine/core";
import { Link } from "react-router";
import { CopyBlock } from "@/components/copy";
import { Failure, Loading } from "@/components/states";
import { usePlaygroundInfo } from "./api/info";
import { requestOf, type Conversation } from "./conversation";
import { curlSnippet, KEY_VARIABLE, pythonSnippet } from "./snippets";

interface SnippetDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly conversation: Conversation;
  readonly model: string;
}

/** The request as it would be sent now, for use outside of the console. */
export function SnippetDialog({ opened, onClose, conversation, model }: SnippetDialogProps) {
  const info = usePlaygroundInfo(opened);
  const request = requestOf({ ...conversation, turns: [] }, model, conversation.turns.at(-1)?.question ?? "Hello");
  return (
    <Modal opened={opened} onClose={onClose} title="Call it from a program" size="lg">
      <Stack gap="md">
        <Text size="sm">
          The serving API speaks OpenAI&apos;s protocol. Put a{" "}
          <Anchor component={Link} to="/keys" size="sm">
            serving key
          </Anchor>{" "}
          into <span className="mono">{KEY_VARIABLE}</span>.
        </Text>
        {info.isError && <Failure error={info.error} title="The address of the serving API is not known" />}
        {info.isPending && <Loading rows={1} height={160} />}
        {info.data && (
          <Tabs defaultValue="curl">
            <Tabs.List mb="sm">
              <Tabs.Tab value="curl">curl</Tabs.Tab>
              <Tabs.Tab value="python">Python</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="curl">
              <CopyBlock value={curlSnippet(info.data.serving_url, request)} label="Copy" />
            </Tabs.Panel>
            <Tabs.Panel value="python">
              <CopyBlock value={pythonSnippet(info.data.serving_url, request)} label="Copy" />
            </Tabs.Panel>
          </Tabs>
        )}
      </Stack>
    </Modal>
  );
}
