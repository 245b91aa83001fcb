import { Loader, Text } from "@mantine/core";
import { IconCheck, IconMinus, IconX } from "@tabler/icons-react";
import { StepState, type OperationStepView } from "@/generated/contracts";
import { clock, duration } from "@/lib/format";
import classes from "./operation-steps.module.css";

const LABEL: Readonly<Record<StepState, string>> = {
  [StepState.RUNNING]: "Running",
  [StepState.DONE]: "Done",
  [StepState.FAILED]: "Failed",
  [StepState.SKIPPED]: "Not needed any more",
};

/** What happened on the way: each step with its state, its times, and why. */
export function OperationSteps({ steps }: { readonly steps: readonly OperationStepView[] }) {
  if (steps.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        No steps yet.
      </Text>
    );
  }
  return (
    <ol className={classes.steps} aria-label="Steps">
      {steps.map((step, at) => (
        <li key={at} className={classes.step} data-testid="step" data-state={step.state}>
          <span className={classes.mark} role="img" aria-label={LABEL[step.state]} title={LABEL[step.state]}>
            <Mark state={step.state} />
          </span>
          <div>
            <Text size="sm">{step.text}</Text>
            {step.cause !== "" && (
              <Text size="sm" c={step.state === StepState.FAILED ? "var(--bad)" : "dimmed"}>
                {step.cause}
              </Text>
            )}
          </div>
          <Text size="xs" c="dimmed" className={`figures ${classes.times ?? ""}`}>
            {clock(step.at)}
            <span className={classes.took}>{took(step)}</span>
          </Text>
        </li>
      ))}
    </ol>
  );
}

function Mark({ state }: { readonly state: StepState }) {
  switch (state) {
    case StepState.RUNNING:
      return <Loader size={12} color="currentColor" />;
    case StepState.DONE:
      return <IconCheck size={14} stroke={2.5} />;
    case StepState.FAILED:
      return <IconX size={14} stroke={2.5} />;
    case StepState.SKIPPED:
      return <IconMinus size={14} stroke={2.5} />;
  }
}

/** How long a step took, where it took any time. */
function took({ at, finished_at: end }: OperationStepView): string {
  if (end === null) return "";
  const seconds = (Date.parse(end) - Date.parse(at)) / 1000;
  return seconds < 0.05 ? "" : duration(seconds);
}
