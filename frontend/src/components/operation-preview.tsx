import { Alert, Text, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconBan, IconPlayerPlay, IconPlayerStop, IconSwitchHorizontal } from "@tabler/icons-react";
import type { CSSProperties, ReactNode } from "react";
import type { OperationPreview } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { lanesOf } from "./moment-lanes";
import classes from "./operation-preview.module.css";

/** Lines of a list that are shown; of more, only the number. */
const SHOWN = 8;
/** Moments up to which each bar has its number. */
const NUMBERED = 14;

/** What will start, stop and change over, what is used meanwhile, and what people should know first. */
export function OperationPreviewView({ preview }: { readonly preview: OperationPreview }) {
  const { start, stop, flip, moments, warnings, refusals } = preview;
  const nothing = start.length + stop.length + flip.length === 0;
  return (
    <div className={classes.preview} data-testid="preview">
      {nothing ? (
        <Text size="sm" c="dimmed">
          No worker starts, stops or changes over.
        </Text>
      ) : (
        <div className={classes.lists}>
          <List icon={<IconSwitchHorizontal size={14} />} label="Change over" lines={flip} testId="preview-flip" />
          <List icon={<IconPlayerPlay size={14} />} label="Start" lines={start} testId="preview-start" />
          <List icon={<IconPlayerStop size={14} />} label="Stop" lines={stop} testId="preview-stop" />
        </div>
      )}
      {moments.length > 1 && <Course preview={preview} />}
      {warnings.length > 0 && <Notes icon={<IconAlertTriangle />} title="Before you go on" lines={warnings} />}
      {refusals.length > 0 && <Notes icon={<IconBan />} title="Part of it can't be done now" lines={refusals} />}
    </div>
  );
}

interface ListProps {
  readonly icon: ReactNode;
  readonly label: string;
  readonly lines: readonly string[];
  readonly testId: string;
}

function List({ icon, label, lines, testId }: ListProps) {
  if (lines.length === 0) return null;
  return (
    <div data-testid={testId}>
      <Text size="xs" c="dimmed" className={classes.label ?? ""}>
        {icon}
        {label} ({lines.length})
      </Text>
      <ul className={classes.lines}>
        {lines.slice(0, SHOWN).map((line) => (
          <li key={line}>{line}</li>
        ))}
        {lines.length > SHOWN && <li>and {lines.length - SHOWN} more</li>}
      </ul>
    </div>
  );
}

/** Devices in use and workers that take requests, from moment to moment. */
function Course({ preview }: { readonly preview: OperationPreview }) {
  const { moments, budget, devices_max: most } = preview;
  const lanes = lanesOf(preview);
  return (
    <figure className={classes.course} aria-label="What is used and what serves, from moment to moment">
      {lanes.map((lane) => (
        <div key={lane.key} className={classes.lane} data-lane={lane.key}>
          <span className={classes.laneLabel}>{lane.label}</span>
          <div className={classes.bars}>
            {lane.values.map((value, at) => (
              <Tooltip key={at} label={`${moments[at]?.text ?? ""}: ${value}`}>
                <span className={classes.bar} style={{ "--share": value / lane.top } as CSSProperties}>
                  <span className={classes.fill} />
                  {moments.length <= NUMBERED && <span className={`figures ${classes.value ?? ""}`}>{value}</span>}
                </span>
              </Tooltip>
            ))}
          </div>
        </div>
      ))}
      <figcaption>
        <Text size="xs" c="dimmed" className="figures" data-testid="preview-devices">
          {most <= budget
            ? `Never more than ${plural(most, "device")}${most < budget ? ` of the ${budget} it may use` : ""}.`
            : `Up to ${plural(most, "device")} at one moment.`}
        </Text>
        <ol className={classes.moments}>
          {moments.map((moment, at) => (
            <li key={at}>{sentence(moment.text)}</li>
          ))}
        </ol>
      </figcaption>
    </figure>
  );
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

interface NotesProps {
  readonly icon: ReactNode;
  readonly title: string;
  readonly lines: readonly string[];
}

function Notes({ icon, title, lines }: NotesProps) {
  return (
    <Alert color="yellow" icon={icon} title={title}>
      {lines.map((line) => (
        <Text key={line} size="sm">
          {sentence(line)}
        </Text>
      ))}
    </Alert>
  );
}
