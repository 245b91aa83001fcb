import { Modal } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { Changes } from "@/components/changes";
import { Failure, Loading } from "@/components/states";
import type { ModelView } from "@/generated/contracts";
import { changesAnything, rebased } from "@/lib/edit";
import { OperateDialog } from "@/operate/operate-dialog";
import { useSeenModel } from "./api/get-model";
import { ModelFields } from "./model-fields";
import { faults, modelChanges, requestOf, valuesOf, type ModelValues } from "./model-form";

interface ChangeModelDialogProps {
  readonly name: string;
  readonly onClose: () => void;
}

/** What people say of a model, and where its weights are while nothing is served from them. Mounted while it is open. */
export function ChangeModelDialog({ name, onClose }: ChangeModelDialogProps) {
  const { data, isError, error, refetch } = useSeenModel(name);
  const title = `Change ${name}`;
  if (data === undefined) {
    return (
      <Modal opened onClose={onClose} title={title} size="lg">
        {isError ? <Failure error={error} title="It can't be read" /> : <Loading rows={2} />}
      </Modal>
    );
  }
  return (
    <ChangeModel
      title={title}
      model={data.value}
      version={data.version}
      onReview={async () => (await refetch()).data?.value ?? null}
      onClose={onClose}
    />
  );
}

interface ChangeModelProps {
  readonly title: string;
  readonly model: ModelView;
  readonly version: string;
  /** Looks again; null where that did not work. */
  readonly onReview: () => Promise<ModelView | null>;
  readonly onClose: () => void;
}

function ChangeModel({ title, model, version, onReview, onClose }: ChangeModelProps) {
  const seen = valuesOf(model);
  const form = useForm<ModelValues>({ initialValues: seen, validate: faults, validateInputOnBlur: true });
  const [settled] = useDebouncedValue(form.values, 300);
  const edit = { seen, wanted: settled };
  const isWrong = Object.keys(faults(settled)).length > 0;
  const review = async (): Promise<void> => {
    const now = await onReview();
    if (now !== null) form.setValues(rebased({ seen, wanted: form.values }, valuesOf(now)).wanted);
  };
  return (
    <OperateDialog
      opened
      onClose={onClose}
      title={title}
      ask={{
        method: "PATCH",
        path: `/models/${encodeURIComponent(model.name)}`,
        ifMatch: version,
        body: requestOf(edit),
      }}
      confirm="Save"
      refused="The model stays as it was"
      hasPreview
      showTrial={() => <Changes changes={modelChanges(edit)} />}
      takesReason={false}
      canQueue={false}
      disabled={!changesAnything(edit) || isWrong || settled !== form.values}
      onReview={() => void review()}
      testId="change-model-dialog"
    >
      <ModelFields
        input={(name, type) => form.getInputProps(name, type === undefined ? {} : { type })}
        canForget={model.shape !== null}
      />
    </OperateDialog>
  );
}
