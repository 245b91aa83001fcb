import classes from "./sparkline.module.css";

const WIDTH = 120;
const HEIGHT = 28;

interface SparklineProps {
  readonly values: readonly (number | null)[];
  readonly color?: string;
}

/** The shape of the last minutes, without axes. Unknown seconds are gaps. Decoration: the figure beside it is read. */
export function Sparkline({ values, color = "var(--neutral)" }: SparklineProps) {
  return (
    <svg className={classes.spark} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden>
      <path d={sparkPath(values)} fill="none" stroke={color} strokeWidth={1.5} vectorEffect="non-scaling-stroke" />
    </svg>
  );
}

/** SVG path of `values` from zero to their highest, with a new stroke after each gap. */
export function sparkPath(values: readonly (number | null)[]): string {
  const top = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const step = WIDTH / Math.max(1, values.length - 1);
  let pen = "M";
  let path = "";
  values.forEach((value, at) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const y = HEIGHT - 1 - (value / top) * (HEIGHT - 3);
    path += `${pen}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  });
  return path;
}
