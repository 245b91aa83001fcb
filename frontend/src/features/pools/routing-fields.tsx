import { Fieldset, NumberInput, Select, SimpleGrid, Stack, Switch, Text } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";
import { DEFAULT_WAITS } from "@/generated/contracts";
import { HANDOFF_FAILURES, WAITS, type RoutingValues } from "./routing-form";

interface RoutingFieldsProps {
  /** What the form knows of one field. */
  readonly input: (name: keyof RoutingValues, options?: { readonly type: "checkbox" }) => GetInputPropsReturnType;
  /** Of how much decode reads itself; null where each worker reads what it answers. */
  readonly tokens: GetInputPropsReturnType | null;
  /** Whether a time between tokens is promised. */
  readonly hasTpot: boolean;
}

/** Where prompts are read, and what is tried when a worker fails or is silent. */
export function RoutingFields({ input, tokens, hasTpot }: RoutingFieldsProps) {
  return (
    <Stack gap="md">
      {tokens !== null && (
        <>
          <NumberInput
            label="Read by decode itself"
            description="Prompts with at most this many tokens that are not cached; 0 hands every prompt to prefill"
            suffix=" tokens"
            min={0}
            {...tokens}
          />
          <Switch
            label="Choose that number by measured pace"
            description={
              hasTpot
                ? "As many tokens as decode reads within the TPOT target; until its pace is known, the number above"
                : "As many tokens as decode reads within the TPOT target. There is none yet: the number above counts"
            }
            {...input("local_prefill_auto", { type: "checkbox" })}
          />
          <Select
            label="When a hand-off fails"
            description="The KV of a prompt did not reach decode whole"
            data={HANDOFF_FAILURES}
            allowDeselect={false}
            {...input("handoff_failure")}
          />
        </>
      )}
      <Fieldset
        variant="unstyled"
        mx={0}
        legend={
          <Text size="sm" c="dimmed">
            Longest waits for workers; left empty, the router&apos;s own
          </Text>
        }
      >
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          {WAITS.map(({ name, label, description }) => (
            <NumberInput
              key={name}
              label={label}
              description={description}
              placeholder={`${DEFAULT_WAITS[name]} s`}
              suffix=" s"
              min={0}
              {...input(name)}
            />
          ))}
        </SimpleGrid>
      </Fieldset>
    </Stack>
  );
}
