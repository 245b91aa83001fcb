import { Text } from "@mantine/core";
import { plural } from "@/lib/format";
import { SLOT_NOUN, type Slots } from "./slots";

/** How many devices are taken: "2 of 4 CPU slots in use". */
export function SlotsNote({ slots }: { readonly slots: readonly Slots[] }) {
  return (
    <Text size="sm" c="dimmed" className="figures">
      {slots.length === 0
        ? "No node is ready, so there are no slots."
        : slots.map((one) => `${one.used} of ${plural(one.total, SLOT_NOUN[one.kind])} in use`).join(", ")}
    </Text>
  );
}
