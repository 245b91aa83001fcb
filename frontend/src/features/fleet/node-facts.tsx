import { Collapse, UnstyledButton } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconChevronRight } from "@tabler/icons-react";
import type { NodeView } from "@/generated/contracts";
import { bytes, dateTime, UNKNOWN } from "@/lib/format";
import classes from "./fleet.module.css";

/** What a node told of itself when it last said hello, on demand. */
export function NodeFacts({ node }: { readonly node: NodeView }) {
  const [open, { toggle }] = useDisclosure(false);
  const engines = Object.entries(node.engines).map(([name, version]) => `${name} ${version}`);
  return (
    <div>
      <UnstyledButton className={classes.more} onClick={toggle} aria-expanded={open}>
        <IconChevronRight size={14} className={classes.chevron} data-open={open || undefined} />
        {open ? "Less about it" : "More about it"}
      </UnstyledButton>
      <Collapse expanded={open}>
        <dl className={classes.facts}>
          <dt>Driver</dt>
          <dd>{node.driver || "none told"}</dd>
          <dt>Engines</dt>
          <dd>{engines.join(", ") || "none told"}</dd>
          <dt>Interfaces</dt>
          <dd className="mono">{node.interfaces.join(", ") || "none told"}</dd>
          <dt>Disk</dt>
          <dd className="figures">
            {node.disk_total === null ? UNKNOWN : `${bytes(node.disk_free)} free of ${bytes(node.disk_total)}`}
          </dd>
          <dt>Its clock</dt>
          <dd className="figures">{clockInWords(node.clock_offset_s)}</dd>
          <dt>Orders</dt>
          <dd className="figures">
            {node.observed_generation === node.generation
              ? `taken up (generation ${node.generation})`
              : `generation ${node.observed_generation} taken up of ${node.generation}`}
          </dd>
          <dt>Joined</dt>
          <dd className="figures">{dateTime(node.joined_at)}</dd>
        </dl>
      </Collapse>
    </div>
  );
}

/** Under a second is what a report takes on its way. */
export function clockInWords(offset: number | null): string {
  if (offset === null) return UNKNOWN;
  if (Math.abs(offset) < 1) return "agrees with ours";
  return `${Math.abs(offset).toFixed(1)} s ${offset > 0 ? "ahead of" : "behind"} ours`;
}
