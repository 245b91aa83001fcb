import { Badge, Text } from "@mantine/core";
import type { DeviceView } from "@/generated/contracts";
import { troublesOf } from "./device-facts";
import classes from "./fleet.module.css";

/** Why it may not be used by everybody, and what is wrong with it. Nothing while all is as usual. */
export function DeviceMarks({ device }: { readonly device: DeviceView }) {
  const troubles = troublesOf(device);
  const { labels, maintenance, maintenance_note: note, reserved_for: reserved } = device;
  const isMarked = labels.length > 0 || reserved !== "";
  return (
    <>
      {isMarked && (
        <div className={classes.marks}>
          {reserved !== "" && (
            <Badge color="gray" variant="outline" tt="none" fw={500}>
              for {reserved} only
            </Badge>
          )}
          {labels.map((label) => (
            <Badge key={label} color="gray" tt="none" fw={500}>
              {label}
            </Badge>
          ))}
        </div>
      )}
      {maintenance && (
        <Text size="xs" c="var(--warn)">
          In maintenance{note !== "" && `: ${note}`}
        </Text>
      )}
      {troubles.map((trouble) => (
        <Text key={trouble} size="xs" c="var(--bad)">
          {trouble}
        </Text>
      ))}
    </>
  );
}
