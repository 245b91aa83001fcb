import { IconTerminal2 } from "@tabler/icons-react";
import { Empty } from "@/components/states";
import { UserRole } from "@/generated/contracts";
import { may, useMay, useWho } from "@/lib/who";
import type { ManagementToken } from "./api/tokens";
import { CredentialPage } from "./credential-page";
import type { Column } from "./credential-table";
import { NewTokenDialog } from "./new-token-dialog";
import { ROLE_NAME } from "./roles";

const COLUMNS: readonly Column<ManagementToken>[] = [
  { title: "Role", show: ({ role }) => [ROLE_NAME[role]] },
  { title: "Deployments", show: ({ only }) => only ?? ["all deployments"] },
];

/** One's own; administrators see those of everybody. */
export function TokensPage() {
  const who = useWho();
  const isAdmin = useMay(UserRole.ADMIN);
  return (
    <CredentialPage<ManagementToken>
      kind="tokens"
      title="Tokens"
      noun="token"
      description={`Management tokens let programs operate Tandem over its API, never with more rights than their owner.${isAdmin ? " You see those of everybody." : ""}`}
      empty={
        <Empty icon={<IconTerminal2 />} title="No tokens yet">
          Scripts and the command line client sign in with a token. It can be bound to single deployments.
        </Empty>
      }
      columns={COLUMNS}
      ofWhom={({ owner }) => `of ${owner ?? "Tandem itself"}`}
      mayCreate={may(who, UserRole.OPERATOR) || Object.keys(who.grants).length > 0}
      actions={["rotate", "revoke"]}
      dialog={(subject, onClose) => <NewTokenDialog opened={subject !== null} onClose={onClose} />}
    />
  );
}
