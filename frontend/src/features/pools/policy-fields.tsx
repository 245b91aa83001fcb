import { NumberInput, SimpleGrid } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import type { PolicyValues } from "./policy-form";

interface PolicyFieldsProps {
  /** What the form knows of one field. */
  readonly input: (name: keyof PolicyValues) => GetInputPropsReturnType;
}

/** When a roll-out goes on, and when it goes back by itself. */
export function PolicyFields({ input }: PolicyFieldsProps) {
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <NumberInput label="A step must be well for" suffix=" s" min={0} {...input("observe_s")} />
      <NumberInput label="And have answered" suffix=" requests" min={0} {...input("min_requests")} />
      <NumberInput
        label="Without so many, goes on after"
        description="Judged by the few that came"
        suffix=" s"
        min={0}
        {...input("quiet_s")}
      />
      <NumberInput
        label="A step may take"
        description="Then the roll-out has failed"
        suffix=" s"
        min={1}
        {...input("step_deadline_s")}
      />
      <NumberInput label="Back if more fail than" suffix=" %" min={0} max={100} {...input("max_errors")} />
      <NumberInput label="Back if more miss the SLO than" suffix=" %" min={0} max={100} {...input("max_misses")} />
    </SimpleGrid>
  );
}
