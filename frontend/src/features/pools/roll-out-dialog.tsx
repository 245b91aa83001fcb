import { Accordion, Modal, Select, SimpleGrid, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { Failure, Loading } from "@/components/states";
import type { DeploymentView } from "@/generated/contracts";
import { useModels } from "@/live/hooks";
import { OperateDialog } from "@/operate/operate-dialog";
import { useRolloutPolicy, type RolloutPolicy } from "./api/get-rollout";
import { PolicyFields } from "./policy-fields";
import { policyIsComplete, stepsWith } from "./policy-form";
import { changesAnything, requestOf, valuesOf, type RollOutValues } from "./roll-out-form";
import { SettingsFields } from "./settings-fields";

interface RollOutDialogProps {
  readonly opened: boolean;
  readonly deployment: DeploymentView;
  readonly onClose: () => void;
}

/** Another model, model revision or settings, step by step. */
export function RollOutDialog({ opened, deployment, onClose }: RollOutDialogProps) {
  const policy = useRolloutPolicy(deployment.name, opened);
  const title = `Roll out a revision of ${deployment.name}`;
  if (opened && policy.data) {
    return <RollOut title={title} deployment={deployment} policy={policy.data} onClose={onClose} />;
  }
  return (
    <Modal opened={opened} onClose={onClose} title={title} size="lg">
      {policy.isError ? <Failure error={policy.error} title="Its policy can't be read" /> : <Loading rows={2} />}
    </Modal>
  );
}

interface RollOutProps {
  readonly title: string;
  readonly deployment: DeploymentView;
  readonly policy: RolloutPolicy;
  readonly onClose: () => void;
}

function RollOut({ title, deployment, policy, onClose }: RollOutProps) {
  const models = useModels();
  const serving = valuesOf(deployment, policy);
  const form = useForm<RollOutValues>({ initialValues: serving });
  const [settled] = useDebouncedValue(form.values, 400);
  return (
    <OperateDialog
      opened
      onClose={onClose}
      title={title}
      ask={{
        method: "POST",
        path: `/deployments/${encodeURIComponent(deployment.name)}/rollout`,
        body: requestOf(settled, serving),
      }}
      confirm="Roll it out"
      refused="Nothing is rolled out"
      hasPreview
      disabled={!changesAnything(settled, serving) || !policyIsComplete(settled) || settled !== form.values}
      testId="roll-out-dialog"
    >
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Select label="Model" data={models.map((model) => model.name)} {...form.getInputProps("model")} />
        <TextInput
          label="Revision of a hub model"
          placeholder="The hub's default"
          {...form.getInputProps("model_revision")}
        />
      </SimpleGrid>
      <TextInput label="What is new" description="Optional" maxLength={200} {...form.getInputProps("note")} />
      <Select label="Step" data={stepsWith(form.values.step)} allowDeselect={false} {...form.getInputProps("step")} />
      <Accordion variant="separated" chevronPosition="left">
        <Accordion.Item value="engine">
          <Accordion.Control>Engine settings</Accordion.Control>
          <Accordion.Panel>
            <SettingsFields input={(name) => form.getInputProps(`settings.${name}`)} />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="policy">
          <Accordion.Control>When it goes on, and when it goes back by itself</Accordion.Control>
          <Accordion.Panel>
            <PolicyFields input={(name) => form.getInputProps(name)} />
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </OperateDialog>
  );
}
