import { Accordion, Modal, Select } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { Changes } from "@/components/changes";
import { Failure, Loading } from "@/components/states";
import { changesAnything, rebased } from "@/lib/edit";
import { OperateDialog } from "@/operate/operate-dialog";
import { useSeenDeployment } from "./api/get-deployment";
import { deploymentChanges, isComplete, requestOf, settingsOf, type DeploymentSettings } from "./deployment-settings";
import { PolicyFields } from "./policy-fields";
import { stepsWith } from "./policy-form";
import { RoutingFields } from "./routing-fields";
import { SloFields } from "./slo-fields";

interface DeploymentSettingsDialogProps {
  readonly name: string;
  readonly onClose: () => void;
}

/** How requests are served and judged: takes effect at once, on the workers that run. Mounted while it is open. */
export function DeploymentSettingsDialog({ name, onClose }: DeploymentSettingsDialogProps) {
  const { data, isError, error, refetch } = useSeenDeployment(name);
  const title = `Settings of ${name}`;
  if (data === undefined) {
    return (
      <Modal opened onClose={onClose} title={title} size="lg">
        {isError ? <Failure error={error} title="They can't be read" /> : <Loading rows={2} />}
      </Modal>
    );
  }
  return (
    <Settings
      name={name}
      title={title}
      seen={settingsOf(data.deployment, data.policy)}
      isSplit={data.deployment.pools.length > 1}
      version={data.version}
      onReview={async () => {
        const now = (await refetch()).data;
        return now === undefined ? null : settingsOf(now.deployment, now.policy);
      }}
      onClose={onClose}
    />
  );
}

interface SettingsProps extends DeploymentSettingsDialogProps {
  readonly title: string;
  readonly seen: DeploymentSettings;
  /** Whether prompts are read and answers written by workers of two kinds. */
  readonly isSplit: boolean;
  readonly version: string;
  /** Looks again; null where that did not work. */
  readonly onReview: () => Promise<DeploymentSettings | null>;
}

function Settings({ name, title, seen, isSplit, version, onReview, onClose }: SettingsProps) {
  const form = useForm<DeploymentSettings>({ initialValues: seen });
  const [settled] = useDebouncedValue(form.values, 300);
  const edit = { seen, wanted: settled };
  const review = async (): Promise<void> => {
    const now = await onReview();
    if (now !== null) form.setValues(rebased({ seen, wanted: form.values }, now).wanted);
  };
  return (
    <OperateDialog
      opened
      onClose={onClose}
      title={title}
      ask={{
        method: "PATCH",
        path: `/deployments/${encodeURIComponent(name)}`,
        ifMatch: version,
        body: requestOf(edit),
      }}
      confirm="Save"
      refused="The deployment stays as it was"
      hasPreview
      showTrial={() => (
        <Changes changes={deploymentChanges(edit)} note="Takes effect at once, on the workers that run." />
      )}
      canQueue={false}
      disabled={!changesAnything(edit) || !isComplete(settled) || settled !== form.values}
      onReview={() => void review()}
      testId="deployment-settings-dialog"
    >
      <SloFields input={(field) => form.getInputProps(field)} />
      <Accordion variant="separated" chevronPosition="left">
        <Accordion.Item value="routing">
          <Accordion.Control>How requests find their workers</Accordion.Control>
          <Accordion.Panel>
            <RoutingFields
              input={(field, options) => form.getInputProps(`routing.${field}`, options)}
              tokens={isSplit ? form.getInputProps("local_prefill_tokens") : null}
              hasTpot={form.values.tpot_ms !== ""}
            />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="policy">
          <Accordion.Control>How revisions are rolled out</Accordion.Control>
          <Accordion.Panel>
            <Select
              label="Step"
              mb="md"
              data={stepsWith(form.values.step)}
              allowDeselect={false}
              {...form.getInputProps("step")}
            />
            <PolicyFields input={(field) => form.getInputProps(field)} />
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </OperateDialog>
  );
}
