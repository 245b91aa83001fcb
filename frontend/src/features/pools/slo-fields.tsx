import { NumberInput, SimpleGrid } from "@mantine/core";
import type { GetInputPropsReturnType } from "@mantine/form";

interface SloFieldsProps {
  readonly input: (name: "ttft_ms" | "tpot_ms") => GetInputPropsReturnType;
}

/** What is promised of each request: roll-outs are judged by it. */
export function SloFields({ input }: SloFieldsProps) {
  return (
    <SimpleGrid cols={2}>
      <NumberInput
        label="TTFT target"
        description="Until the first token"
        placeholder="No promise"
        suffix=" ms"
        min={0}
        {...input("ttft_ms")}
      />
      <NumberInput
        label="TPOT target"
        description="For each token after it"
        placeholder="No promise"
        suffix=" ms"
        min={0}
        {...input("tpot_ms")}
      />
    </SimpleGrid>
  );
}
