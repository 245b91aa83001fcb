import { Paper, Text, Title, useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState, type ReactNode } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "@/lib/format";
import classes from "./time-chart.module.css";

export interface Series {
  readonly label: string;
  /** One value per second; null is a gap. */
  readonly values: readonly (number | null)[];
  /** A CSS colour, variables included. */
  readonly color: string;
  readonly dash?: readonly number[];
}

interface TimeChartProps {
  readonly title: string;
  readonly hint: string;
  /** Unix seconds, evenly spaced, oldest first; shared by all series. */
  readonly seconds: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number | null) => string;
  readonly axisFormat: (value: number) => string;
  /** Said in place of an empty chart. */
  readonly empty: ReactNode;
  readonly height?: number;
}

const SYNC_KEY = "tandem";

/** Distances of time labels, in seconds. */
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300];

/** Lines over the last minutes. The legend reads the second under the cursor, else the newest; cursors of all charts
 * on a page move together. */
export function TimeChart(props: TimeChartProps) {
  const { title, hint, seconds, series, format, empty, height = 180 } = props;
  const [cursor, setCursor] = useState<number | null>(null);
  const canvas = usePlot(props, height, setCursor);
  const at = cursor !== null && cursor < seconds.length ? cursor : newestKnown(series, seconds.length);
  const nothing = series.every((one) => one.values.every((value) => value === null));
  const reading = series.map((one) => `${one.label} ${format(one.values[at] ?? null)}`).join(", ");
  const second = seconds[at];

  return (
    <Paper p="md" className={classes.chart}>
      <div className={classes.head}>
        <div>
          <Title order={2}>{title}</Title>
          <Text size="xs" c="dimmed" className="figures">
            {cursor !== null && second !== undefined ? `at ${clock(new Date(second * 1000).toISOString())}` : hint}
          </Text>
        </div>
        <dl className={classes.legend}>
          {series.map((one) => (
            <div key={one.label} className={classes.entry}>
              <dt>
                <Stroke color={one.color} dash={one.dash} />
                {one.label}
              </dt>
              <dd className="figures">{format(one.values[at] ?? null)}</dd>
            </div>
          ))}
        </dl>
      </div>
      <div className={classes.plot} style={{ height }} role="img" aria-label={`${title}: ${reading}`}>
        <div ref={canvas} data-empty={nothing || undefined} />
        {nothing && (
          <div className={classes.empty}>
            <span>{empty}</span>
          </div>
        )}
      </div>
    </Paper>
  );
}

function Stroke({ color, dash }: { readonly color: string; readonly dash: readonly number[] | undefined }) {
  return (
    <svg width={16} height={6} aria-hidden>
      <line x1={0} y1={3} x2={16} y2={3} stroke={color} strokeWidth={2.5} strokeDasharray={dash?.join(" ")} />
    </svg>
  );
}

/** The newest second, or when it isn't filled yet the one before: the last second often still waits for its frame. */
function newestKnown(series: readonly Series[], length: number): number {
  for (let at = length - 1; at >= Math.max(0, length - 3); at -= 1) {
    if (series.some((one) => (one.values[at] ?? null) !== null)) return at;
  }
  return Math.max(0, length - 1);
}

/** Keeps one uPlot in the returned element: made anew when its look changes, fed when only its data does. */
function usePlot(props: TimeChartProps, height: number, onCursor: (at: number | null) => void) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  const scheme = useComputedColorScheme("light");
  const look = props.series.map((one) => `${one.label}|${one.color}|${one.dash?.join() ?? ""}`).join();

  useEffect(() => {
    latest.current = props;
    plot.current?.setData(toData(props));
  });

  useEffect(() => {
    const host = element.current;
    if (host === null) return;
    const chart = new uPlot(options(host, latest.current, height, onCursor), toData(latest.current), host);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: host.clientWidth, height }));
    observer.observe(host);
    return () => {
      observer.disconnect();
      plot.current = null;
      chart.destroy();
    };
  }, [scheme, look, height, onCursor]);

  return element;
}

function toData(props: TimeChartProps): uPlot.AlignedData {
  return [[...props.seconds], ...props.series.map((one) => [...one.values])];
}

function options(
  host: HTMLElement,
  props: TimeChartProps,
  height: number,
  onCursor: (at: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(host);
  const resolve = (color: string): string => {
    const name = /^var\((--[\w-]+)\)$/.exec(color)?.[1];
    return name === undefined ? color : style.getPropertyValue(name).trim();
  };
  const axis: uPlot.Axis = {
    stroke: resolve("var(--neutral)"),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: resolve("var(--line)"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: host.clientWidth,
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC_KEY },
      drag: { x: false, y: false },
      y: false,
      points: { size: 7 },
    },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.12 : 1] } },
    axes: [
      {
        ...axis,
        space: 70,
        incrs: TIME_STEPS,
        values: (_, ticks) => ticks.map(timeTick),
        grid: { show: false },
        size: 26,
      },
      { ...axis, space: 36, values: (_, ticks) => ticks.map(props.axisFormat), size: 58, gap: 6 },
    ],
    series: [
      {},
      ...props.series.map((one) => ({
        label: one.label,
        stroke: resolve(one.color),
        width: 1.75,
        ...(one.dash ? { dash: [...one.dash] } : {}),
        spanGaps: false,
        points: { size: 4, filter: loners },
      })),
    ],
    hooks: { setCursor: [(chart) => onCursor(chart.cursor.idx ?? null)] },
  };
}

/** Points to draw: those that no line touches, because both neighbours are unknown. */
function loners(chart: uPlot, seriesIndex: number): number[] | null {
  const values = chart.data[seriesIndex] ?? [];
  const alone: number[] = [];
  for (let at = 0; at < values.length; at += 1) {
    if (values[at] != null && values[at - 1] == null && values[at + 1] == null) alone.push(at);
  }
  return alone;
}

function timeTick(second: number): string {
  const text = clock(new Date(second * 1000).toISOString());
  return text.endsWith(":00") ? text.slice(0, 5) : text;
}
