import { Text } from "@mantine/core";
import type { DeploymentView } from "@/generated/contracts";
import { OperateDialog } from "@/operate/operate-dialog";

interface RollBackDialogProps {
  /** Number of the revision that shall serve again; null is closed. */
  readonly to: number | null;
  readonly deployment: DeploymentView;
  readonly onClose: () => void;
}

export function RollBackDialog({ to, deployment, onClose }: RollBackDialogProps) {
  const isUnderWay = deployment.rollout !== null;
  return (
    <OperateDialog
      opened={to !== null}
      onClose={onClose}
      title={`Roll ${deployment.name} back to revision ${to ?? ""}`}
      ask={{
        method: "POST",
        path: `/deployments/${encodeURIComponent(deployment.name)}/rollback`,
        body: { to },
      }}
      confirm="Roll back"
      refused="It was not rolled back"
      hasPreview
      testId="roll-back-dialog"
    >
      <Text size="sm">
        Revision {to} serves again, everywhere at once.
        {isUnderWay && " The roll-out that is under way gives way to it."}
      </Text>
    </OperateDialog>
  );
}
