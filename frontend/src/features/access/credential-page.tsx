import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { useCredentials, type Credential, type CredentialKind } from "./api/credentials";
import { RevokeDialog, RotateDialog } from "./credential-dialogs";
import type { CredentialAction } from "./credential-menu";
import { CredentialTable, type Column } from "./credential-table";

interface CredentialPageProps<T> {
  readonly kind: CredentialKind;
  readonly title: string;
  /** One of them: "key". */
  readonly noun: string;
  readonly description: string;
  /** Shown while there are none. */
  readonly empty: ReactNode;
  readonly columns: readonly Column<T>[];
  readonly ofWhom?: (credential: T) => string;
  readonly mayCreate: boolean;
  readonly actions: readonly CredentialAction[];
  /** The dialog that makes one ("new") or changes one. */
  readonly dialog: (subject: T | "new" | null, onClose: () => void) => ReactNode;
}

/** A kind of credentials: the list, making one (`?add` in the address), rotating and revoking. */
export function CredentialPage<T extends Credential>(props: CredentialPageProps<T>) {
  const { kind, title, noun, description, empty, columns, ofWhom, mayCreate, actions, dialog } = props;
  const credentials = useCredentials<T>(kind);
  const [params, setParams] = useSearchParams();
  const [doing, setDoing] = useState<{ readonly action: CredentialAction; readonly subject: T } | null>(null);
  const subject = (action: CredentialAction): T | null => (doing?.action === action ? doing.subject : null);
  const close = (): void => setDoing(null);
  return (
    <Page
      title={title}
      description={description}
      actions={
        mayCreate && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
            Create a {noun}
          </Button>
        )
      }
    >
      {credentials.isPending && <Loading rows={1} height={160} />}
      {credentials.isError && (
        <Failure
          error={credentials.error}
          title={`The ${kind} can't be shown`}
          onRetry={() => void credentials.refetch()}
        />
      )}
      {credentials.data?.length === 0 && empty}
      {credentials.data !== undefined && credentials.data.length > 0 && (
        <CredentialTable
          credentials={credentials.data}
          columns={columns}
          {...(ofWhom === undefined ? {} : { ofWhom })}
          actions={actions}
          onAct={(action, one) => setDoing({ action, subject: one })}
          rowTestId={`${noun}-row`}
        />
      )}
      {dialog(mayCreate && params.has("add") ? "new" : subject("change"), () => {
        setParams({});
        close();
      })}
      <RotateDialog kind={kind} credential={subject("rotate")} onClose={close} />
      <RevokeDialog kind={kind} credential={subject("revoke")} onClose={close} />
    </Page>
  );
}
