import { NumberInput, Select, SimpleGrid, Stack, Switch } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import { HANDOFF_FAILURES, type RoutingValues } from "./routing-form";

interface RoutingFieldsProps {
  /** What the form knows of one field. */
  readonly input: (name: keyof RoutingValues, options?: { readonly type: "checkbox" }) => GetInputPropsReturnType;
}

/** Where prompts are read, and what is tried when a worker fails or is silent. */
export function RoutingFields({ input }: RoutingFieldsProps) {
  return (
    <Stack gap="md">
      <Switch
        label="Limit of short prompts by measured pace"
        description="As much as decode can read within the TPOT target; needs one"
        {...input("local_prefill_auto", { type: "checkbox" })}
      />
      <Select
        label="When a hand-off fails"
        data={HANDOFF_FAILURES}
        allowDeselect={false}
        {...input("handoff_failure")}
      />
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <NumberInput
          label="First token within"
          placeholder="Router's"
          suffix=" s"
          min={0}
          {...input("first_token_s")}
        />
        <NumberInput label="Next token within" placeholder="Router's" suffix=" s" min={0} {...input("idle_s")} />
        <NumberInput label="Whole request within" placeholder="Router's" suffix=" s" min={0} {...input("total_s")} />
      </SimpleGrid>
    </Stack>
  );
}
