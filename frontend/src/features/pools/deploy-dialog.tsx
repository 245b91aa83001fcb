import {
  Accordion,
  Anchor,
  Button,
  Group,
  Modal,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { Link } from "react-router";
import { DEFAULT_ENGINE_SETTINGS } from "@/generated/contracts";
import { Failure } from "@/components/states";
import { ApiError } from "@/lib/api";
import { plural } from "@/lib/format";
import { useModels } from "@/live/hooks";
import { useCreateDeployment, type NewDeployment } from "./api/create-deployment";
import { freeSlots, type Slots } from "./slots";
import { SlotsNote } from "./slots-note";

interface DeployDialogProps {
  readonly opened: boolean;
  readonly slots: readonly Slots[];
  readonly onClose: () => void;
}

const DTYPES = [
  { value: "auto", label: "Automatic (float32 on CPU, bfloat16 on GPU)" },
  { value: "float32", label: "float32" },
  { value: "bfloat16", label: "bfloat16" },
  { value: "float16", label: "float16" },
];

function useDeployForm() {
  return useForm<NewDeployment>({
    initialValues: {
      name: "",
      model: "",
      prefill: 1,
      decode: 1,
      local_prefill_tokens: 64,
      settings: DEFAULT_ENGINE_SETTINGS,
    },
    validate: {
      name: (value) => (/^[a-z0-9][a-z0-9._-]*$/i.test(value) ? null : "Letters, digits, '.', '-' and '_'"),
      model: (value) => (value === "" ? "Choose a model" : null),
    },
  });
}

export function DeployDialog({ opened, slots, onClose }: DeployDialogProps) {
  const models = useModels();
  const deploy = useCreateDeployment();
  const form = useDeployForm();
  const wanted = form.values.prefill + form.values.decode;
  const free = freeSlots(slots);

  const submit = (values: NewDeployment): void =>
    deploy.mutate(values, {
      onSuccess: () => {
        form.reset();
        onClose();
      },
      onError: (error) => {
        if (error instanceof ApiError && error.field !== null) form.setFieldError(error.field, error.message);
      },
    });

  const chooseModel = (model: string | null): void => {
    if (model === null) return;
    form.setFieldValue("model", model);
    if (form.values.name === "") form.setFieldValue("name", model);
  };

  return (
    <Modal opened={opened} onClose={onClose} title="Deploy a model" size="lg" data-testid="deploy-dialog">
      <form onSubmit={form.onSubmit(submit)} noValidate>
        <Stack gap="md">
          <Select
            label="Model"
            data-autofocus
            placeholder={models.length === 0 ? "The catalogue is empty" : "From the catalogue"}
            description={
              models.length === 0 ? (
                <Anchor component={Link} to="/models?add" size="xs">
                  Add a model to the catalogue first
                </Anchor>
              ) : undefined
            }
            data={models.map((model) => model.name)}
            {...form.getInputProps("model")}
            onChange={chooseModel}
          />
          <TextInput label="Name" description="What clients write as model" {...form.getInputProps("name")} />
          <SimpleGrid cols={2}>
            <NumberInput label="Prefill workers" min={0} max={64} {...form.getInputProps("prefill")} />
            <NumberInput label="Decode workers" min={0} max={64} {...form.getInputProps("decode")} />
          </SimpleGrid>
          <div>
            <SlotsNote slots={slots} />
            {wanted > free && (
              <Text size="sm" c="var(--warn)">
                {plural(wanted, "worker")} wanted, {free} free.
              </Text>
            )}
          </div>
          <Accordion variant="separated" chevronPosition="left">
            <Accordion.Item value="engine">
              <Accordion.Control>Engine settings</Accordion.Control>
              <Accordion.Panel>
                <EngineFields form={form} />
              </Accordion.Panel>
            </Accordion.Item>
          </Accordion>
          {deploy.isError && <Failure error={deploy.error} title="Nothing was deployed" />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={deploy.isPending}>
              Deploy
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function EngineFields({ form }: { readonly form: ReturnType<typeof useDeployForm> }) {
  const limit = form.getInputProps("settings.max_model_len");
  return (
    <Stack gap="md">
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberInput
          label="Read locally up to"
          description="Prompt tokens that decode reads itself"
          min={0}
          {...form.getInputProps("local_prefill_tokens")}
        />
        <NumberInput
          label="Longest request"
          description="Prompt and answer, in tokens"
          placeholder="The model's own limit"
          min={1}
          {...limit}
          value={form.values.settings.max_model_len ?? ""}
          onChange={(value) => form.setFieldValue("settings.max_model_len", typeof value === "number" ? value : null)}
        />
        <NumberInput
          label="KV cache"
          description="Tokens per worker"
          min={16}
          step={1024}
          thousandSeparator=","
          {...form.getInputProps("settings.kv_tokens")}
        />
        <NumberInput
          label="Prefill chunk"
          description="Prompt tokens per step; 0 reads prompts whole"
          min={0}
          step={64}
          {...form.getInputProps("settings.prefill_chunk_tokens")}
        />
        <NumberInput
          label="Largest batch"
          description="Requests in one decode step"
          min={1}
          {...form.getInputProps("settings.max_running")}
        />
        <NumberInput
          label="KV block"
          description="Tokens per block"
          min={1}
          {...form.getInputProps("settings.block_size")}
        />
      </SimpleGrid>
      <Select label="Number format" data={DTYPES} {...form.getInputProps("settings.dtype")} />
    </Stack>
  );
}
