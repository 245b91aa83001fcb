import { IconKey } from "@tabler/icons-react";
import { Empty } from "@/components/states";
import { PriorityClass } from "@/generated/contracts";
import { useMay } from "@/lib/who";
import type { ServingKey } from "./api/keys";
import { CredentialPage } from "./credential-page";
import type { Column } from "./credential-table";
import { KeyDialog } from "./key-dialog";
import { CLASS_NAME } from "./priority-classes";

const COLUMNS: readonly Column<ServingKey>[] = [
  { title: "May call", show: ({ models }) => (models.length === 0 ? ["all models"] : models) },
  { title: "Priority", show: ({ priority_class: of }) => [CLASS_NAME[of]], brief: priorityOf },
  { title: "Limits", show: limitsOf },
];

export function KeysPage() {
  const mayChange = useMay();
  return (
    <CredentialPage<ServingKey>
      kind="keys"
      title="Keys"
      noun="key"
      description="Serving keys let programs call the models. A key is shown once, when it is made."
      empty={
        <Empty icon={<IconKey />} title="No keys yet">
          Every call to the serving API carries a key. Make one per program, so that each can be revoked alone.
        </Empty>
      }
      columns={COLUMNS}
      mayCreate={mayChange}
      actions={mayChange ? ["change", "rotate", "revoke"] : []}
      dialog={(subject, onClose) => <KeyDialog subject={subject} onClose={onClose} />}
    />
  );
}

/** Only where it is not what most keys have. */
function priorityOf({ priority_class: of }: ServingKey): readonly string[] {
  return of === PriorityClass.STANDARD ? [] : [`${CLASS_NAME[of]} priority`];
}

function limitsOf(key: ServingKey): readonly string[] {
  const { requests_per_minute: requests, tokens_per_minute: tokens, max_concurrent: atOnce } = key;
  const limits = [
    requests === null ? null : `${exact(requests)} requests/min`,
    tokens === null ? null : `${exact(tokens)} tokens/min`,
    atOnce === null ? null : `${exact(atOnce)} at once`,
  ].filter((limit) => limit !== null);
  return limits.length === 0 ? ["no limits"] : limits;
}

const exact = (limit: number): string => limit.toLocaleString("en-US");
