import { TextInput } from "@mantine/core";

interface ReasonInputProps {
  readonly value: string;
  readonly onChange: (reason: string) => void;
  readonly placeholder?: string;
}

/** Why somebody does something: kept with the operation and in the audit trail. */
export function ReasonInput({ value, onChange, placeholder }: ReasonInputProps) {
  return (
    <TextInput
      label="Reason"
      description="Optional; kept with the operation and in the audit trail"
      maxLength={200}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      {...(placeholder === undefined ? {} : { placeholder })}
    />
  );
}
