import { Text } from "@mantine/core";
import { Role, WorkerPhase, type WorkerView } from "@/generated/contracts";
import { ROLE_LABEL } from "@/lib/stages";
import { OperateDialog } from "@/operate/operate-dialog";

export type WorkerAction = "flip" | "restart";

export const OTHER_ROLE: Readonly<Record<Role, Role | null>> = {
  [Role.PREFILL]: Role.DECODE,
  [Role.DECODE]: Role.PREFILL,
  [Role.UNIFIED]: null,
};

interface WorkerActionDialogProps {
  readonly action: WorkerAction | null;
  readonly worker: WorkerView;
  readonly canFlip: boolean;
  readonly onClose: () => void;
}

/** Asks before one worker is made something else, or started anew. */
export function WorkerActionDialog({ action, worker, canFlip, onClose }: WorkerActionDialogProps) {
  const other = OTHER_ROLE[worker.role];
  const path = `/workers/${encodeURIComponent(worker.id)}`;
  const isDown = worker.phase === WorkerPhase.FAILED || worker.phase === WorkerPhase.BACKOFF;
  return (
    <>
      {other !== null && (
        <OperateDialog
          opened={action === "flip"}
          onClose={onClose}
          title={`Make ${worker.name} a ${other} worker`}
          ask={{ method: "POST", path: `${path}/flip` }}
          confirm={`Flip to ${other}`}
          refused={`${worker.name} was not flipped`}
          hasPreview
          testId="flip-dialog"
        >
          <Text size="sm">
            It takes no new requests, finishes what it has, and then{" "}
            {canFlip ? "switches in seconds: its weights stay loaded." : "starts anew on the same devices."} One{" "}
            {worker.role} worker fewer, one {other} worker more.
          </Text>
          <Text size="sm" c="dimmed" data-testid="flip-how">
            {canFlip ? "Weights stay loaded" : "Warm restart"} · {ROLE_LABEL[worker.role]} → {ROLE_LABEL[other]}
          </Text>
        </OperateDialog>
      )}
      <OperateDialog
        opened={action === "restart"}
        onClose={onClose}
        title={`Restart ${worker.name}`}
        ask={{ method: "POST", path: `${path}/restart` }}
        confirm="Restart"
        refused={`${worker.name} was not restarted`}
        hasPreview
        testId="restart-dialog"
      >
        <Text size="sm">
          {isDown
            ? "It is started again at once, and its failed starts are forgotten."
            : "It takes no new requests, finishes what it has, and starts anew on the same devices."}
        </Text>
      </OperateDialog>
    </>
  );
}
