import { Paper, SimpleGrid, Text } from "@mantine/core";
import type { DeploymentFrame } from "@/generated/contracts";
import { Sparkline } from "@/components/sparkline";
import { count, percent, plural, rate } from "@/lib/format";
import classes from "./overview.module.css";
import { column, newest, recentMean, total, type TimeWindow } from "./window";

const errors = (frame: DeploymentFrame): number | null =>
  frame.failed === null || frame.rejected === null ? null : frame.failed + frame.rejected;

interface StatTilesProps {
  readonly window: TimeWindow;
  /** The window in words: "2 min". */
  readonly span: string;
}

export function StatTiles({ window, span }: StatTilesProps) {
  const received = total(window, (frame) => frame.received);
  const failed = total(window, errors);
  const handoffs = total(window, (frame) => frame.handoffs);
  const local = total(window, (frame) => frame.local_prefills);
  const handoffFailures = total(window, (frame) => frame.handoff_failures);
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="md" className={classes.tiles ?? ""}>
      <Tile
        label="Requests in flight"
        value={count(newest(window, (frame) => frame.in_flight))}
        note="now, all stages"
        spark={column(window, (frame) => frame.in_flight)}
      />
      <Tile
        label="Requests"
        value={rate(recentMean(window, (frame) => frame.received))}
        unit="/s"
        note={requestNote(window, received, span)}
        spark={column(window, (frame) => frame.received)}
      />
      <Tile
        label="Output tokens"
        value={rate(recentMean(window, (frame) => frame.output_tokens))}
        unit="/s"
        note={`${rate(recentMean(window, (frame) => frame.prompt_tokens))} prompt tokens/s`}
        spark={column(window, (frame) => frame.output_tokens)}
        color="var(--decode)"
      />
      <Tile
        label="Errors"
        value={count(failed)}
        note={failed === null || received === null ? `nothing known in ${span}` : errorNote(failed, received, span)}
        spark={column(window, errors)}
        color="var(--bad)"
        bad={failed !== null && failed > 0}
      />
      <Tile
        label="Hand-offs"
        value={count(handoffs)}
        note={handoffNote(local, handoffFailures)}
        spark={column(window, (frame) => frame.handoffs)}
        color="var(--handoff)"
        bad={handoffFailures !== null && handoffFailures > 0}
      />
    </SimpleGrid>
  );
}

function requestNote(window: TimeWindow, received: number | null, span: string): string {
  const answered = total(window, (frame) => frame.completed);
  const left = total(window, (frame) => frame.cancelled);
  if (received === null || answered === null || left === null) return `nothing known in ${span}`;
  const gone = left > 0 ? `, ${count(left)} given up by clients` : "";
  return `${count(received)} in ${span}, ${count(answered)} answered${gone}`;
}

function errorNote(failed: number, received: number, span: string): string {
  if (received === 0) return `no requests in ${span}`;
  return `${percent(Math.min(1, failed / received))} of ${plural(received, "request")}`;
}

function handoffNote(local: number | null, failures: number | null): string {
  if (local === null || failures === null) return "nothing known yet";
  const locally = `${count(local)} prefilled locally`;
  return failures > 0 ? `${count(failures)} failed, ${locally}` : locally;
}

interface TileProps {
  readonly label: string;
  readonly value: string;
  readonly unit?: string;
  readonly note: string;
  readonly spark: readonly (number | null)[];
  readonly color?: string;
  readonly bad?: boolean;
}

function Tile({ label, value, unit, note, spark, color, bad = false }: TileProps) {
  return (
    <Paper p="md" role="group" aria-label={label}>
      <Text size="sm" c="dimmed">
        {label}
      </Text>
      <div className={classes.value} style={bad ? { color: "var(--bad)" } : undefined}>
        {value}
        {unit !== undefined && <span className={classes.unit}>{unit}</span>}
      </div>
      <Text size="xs" c="dimmed" className="figures" truncate title={note}>
        {note}
      </Text>
      <div className={classes.spark}>
        <Sparkline values={spark} {...(color === undefined ? {} : { color })} />
      </div>
    </Paper>
  );
}
