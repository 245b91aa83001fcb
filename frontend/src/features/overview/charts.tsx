import { SimpleGrid, Stack } from "@mantine/core";
import { Role, type DeploymentFrame, type Quantiles } from "@/generated/contracts";
import { TimeChart, type Series } from "@/components/time-chart";
import { axisCount, axisDuration, duration, rate } from "@/lib/format";
import { stageColor, type Stage } from "@/lib/stages";
import { column, ofRole, type TimeWindow } from "./window";

const DASH = [5, 4];

function percentiles(window: TimeWindow, stage: Stage, pick: (frame: DeploymentFrame) => Quantiles): Series[] {
  return [
    { label: "p50", values: column(window, (frame) => pick(frame).p50), color: stageColor(stage, 2) },
    { label: "p95", values: column(window, (frame) => pick(frame).p95), color: stageColor(stage) },
    { label: "p99", values: column(window, (frame) => pick(frame).p99), color: stageColor(stage), dash: DASH },
  ];
}

/** Latencies and backlog over time. Warm lines are prefill's doing, cool ones decode's, purple ones the hand-off's. */
export function Charts({ window }: { readonly window: TimeWindow }) {
  const latency = { seconds: window.seconds, format: duration, axisFormat: axisDuration };
  return (
    <Stack gap="md">
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <TimeChart
          {...latency}
          title="TTFT"
          hint="time to first token, last 10 s"
          series={percentiles(window, "prefill", (frame) => frame.ttft)}
          empty="No first token in this time"
          height={200}
        />
        <TimeChart
          {...latency}
          title="TPOT"
          hint="time per output token, last 10 s"
          series={percentiles(window, "decode", (frame) => frame.tpot)}
          empty="No answer of two tokens or more ended in this time"
          height={200}
        />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, md: 2, lg: 4 }} spacing="md">
        <TimeChart
          {...latency}
          title="ITL"
          hint="gap between tokens"
          series={percentiles(window, "decode", (frame) => frame.itl)}
          empty="No tokens in this time"
          height={150}
        />
        <TimeChart
          {...latency}
          title="First gap"
          hint="carries the hand-off"
          series={percentiles(window, "handoff", (frame) => frame.first_gap)}
          empty="No second token in this time"
          height={150}
        />
        <TimeChart
          {...latency}
          title="Whole answer"
          hint="until the last token"
          series={percentiles(window, "decode", (frame) => frame.e2e)}
          empty="No answer ended in this time"
          height={150}
        />
        <TimeChart
          seconds={window.seconds}
          format={rate}
          axisFormat={axisCount}
          title="Backlog"
          hint="requests per stage"
          series={[
            {
              label: "wait for prefill",
              values: column(
                window,
                ofRole(Role.PREFILL, (pool) => pool.waiting),
              ),
              color: stageColor("prefill"),
            },
            {
              label: "in decode",
              values: column(
                window,
                ofRole(Role.DECODE, (pool) => pool.running),
              ),
              color: stageColor("decode"),
            },
          ]}
          empty="No worker reported its backlog in this time"
          height={150}
        />
      </SimpleGrid>
    </Stack>
  );
}
