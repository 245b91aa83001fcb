import { Accordion, JsonInput, SimpleGrid, Switch, TextInput } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import type { ModelValues } from "./model-form";

interface ModelFieldsProps {
  readonly input: (name: keyof ModelValues, kind?: "checkbox") => GetInputPropsReturnType;
  /** Whether there is something known of it that can be forgotten. */
  readonly canForget?: boolean;
}

/** Where a model's weights are, and what people say of it. */
export function ModelFields({ input, canForget = false }: ModelFieldsProps) {
  return (
    <>
      <TextInput
        label="Weights"
        description="A directory that exists on every node, the id of a causal language model on the Hugging Face hub, or the web address of an archive or directory"
        placeholder="/models/qwen3-8b"
        {...input("path")}
      />
      <SimpleGrid cols={2}>
        <TextInput label="Revision" description="Of a hub id; optional" placeholder="main" {...input("revision")} />
        <TextInput label="Licence" description="Optional" placeholder="apache-2.0" {...input("licence")} />
      </SimpleGrid>
      <TextInput label="Description" description="Optional" {...input("description")} />
      <Accordion variant="separated" chevronPosition="left">
        <Accordion.Item value="shape">
          <Accordion.Control>What it is made of</Accordion.Control>
          <Accordion.Panel>
            <JsonInput
              label="config.json"
              description="Its content, where nobody can read the files yet. Left empty, it is read from them"
              placeholder='{ "model_type": "llama", … }'
              autosize
              minRows={3}
              maxRows={10}
              {...input("config")}
            />
            {canForget && (
              <Switch
                mt="md"
                label="Read it again"
                description="Forgets what is known, and reads it from the files"
                {...input("forget", "checkbox")}
              />
            )}
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </>
  );
}
