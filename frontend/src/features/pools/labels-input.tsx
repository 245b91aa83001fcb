import { TagsInput, type TagsInputProps } from "@mantine/core";
import { useNodes } from "@/live/hooks";

type LabelsInputProps = Pick<TagsInputProps, "label" | "description" | "value" | "onChange" | "error">;

/** Labels that devices must have; those of the fleet are offered. */
export function LabelsInput({ value, ...rest }: LabelsInputProps) {
  const nodes = useNodes();
  const known = nodes.flatMap((node) => [...node.labels, ...node.devices.flatMap((device) => device.labels)]);
  return (
    <TagsInput
      placeholder={value === undefined || value.length === 0 ? "Any device" : ""}
      data={[...new Set(known)].sort()}
      acceptValueOnBlur
      clearable
      {...(value === undefined ? {} : { value })}
      {...rest}
    />
  );
}
