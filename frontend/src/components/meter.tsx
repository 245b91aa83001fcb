import { percent } from "@/lib/format";
import classes from "./meter.module.css";

interface MeterProps {
  readonly label: string;
  /** 0..1; null is not known and is drawn as such. */
  readonly share: number | null;
  readonly color?: string;
  /** From here on the bar turns red. Leave out where full is fine: a GPU's memory is meant to be full. */
  readonly warnAt?: number;
}

/** A level within known bounds. */
export function Meter({ label, share, color = "var(--neutral)", warnAt = Infinity }: MeterProps) {
  if (share === null) {
    return <div className={classes.track} data-unknown role="img" aria-label={`${label}: not known`} />;
  }
  const bounded = Math.min(1, Math.max(0, share));
  return (
    <div
      className={classes.track}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(bounded * 100)}
      aria-valuetext={percent(share)}
    >
      <div
        className={classes.bar}
        style={{ width: `${bounded * 100}%`, background: share >= warnAt ? "var(--bad)" : color }}
      />
    </div>
  );
}
