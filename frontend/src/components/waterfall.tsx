import { Text, Tooltip } from "@mantine/core";
import type { RequestTiming } from "@/generated/contracts";
import { duration } from "@/lib/format";
import { stageColor } from "@/lib/stages";
import { layOut } from "./waterfall-layout";
import classes from "./waterfall.module.css";

/** The stages of one answer until its first token, to scale; they add up to its TTFT. */
export function Waterfall({ timing }: { readonly timing: RequestTiming }) {
  const layout = layOut(timing);
  if (layout === null) return null;
  return (
    <figure className={classes.figure} aria-label={`Stages until the first token, ${duration(layout.total)} in all`}>
      <figcaption className={classes.caption}>
        <Text size="xs" c="dimmed">
          Where the time to the first token went
        </Text>
        <Text size="xs" c="dimmed" className="figures">
          {duration(layout.total)}
        </Text>
      </figcaption>
      <div className={classes.bar} aria-hidden>
        {layout.segments.map((segment) => (
          <Tooltip key={segment.key} label={`${segment.label}: ${duration(segment.seconds)}`}>
            <div
              className={classes.segment}
              style={{ flexGrow: segment.share, background: stageColor(segment.stage, segment.level) }}
            />
          </Tooltip>
        ))}
      </div>
      <ul className={classes.legend} data-testid="waterfall" data-total={layout.total}>
        {layout.segments.map((segment) => (
          <li key={segment.key} data-testid="waterfall-segment" data-seconds={segment.seconds}>
            <span className={classes.swatch} style={{ background: stageColor(segment.stage, segment.level) }} />
            {segment.label}
            <span className={`figures ${classes.value ?? ""}`}>{duration(segment.seconds)}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}
