import { Tooltip } from "@mantine/core";
import { Role, type PoolFrame, type PoolView, type Quantiles } from "@/generated/contracts";
import { duration } from "@/lib/format";
import { useLive } from "@/live/hooks";
import type { LiveState } from "@/live/state";
import classes from "./pools.module.css";

interface Figure {
  readonly term: string;
  readonly hint: string;
  readonly of: (frame: PoolFrame) => Quantiles;
}

const TTFT: Figure = {
  term: "TTFT",
  hint: "Time to first token of the requests whose first token was made here, last 10 s",
  of: (frame) => frame.ttft,
};
const QUEUE: Figure = {
  term: "Queue",
  hint: "How long prompts waited here until they were first computed, last 10 s",
  of: (frame) => frame.queue,
};
const TPOT: Figure = {
  term: "TPOT",
  hint: "Time per output token of the answers written here, last 10 s",
  of: (frame) => frame.tpot,
};
const ITL: Figure = {
  term: "ITL",
  hint: "Gaps between the tokens written here, last 10 s",
  of: (frame) => frame.itl,
};

/** What a pool of each role decides; two each, so that pools side by side stay in line. */
const FIGURES: Record<Role, readonly Figure[]> = {
  [Role.PREFILL]: [TTFT, QUEUE],
  [Role.DECODE]: [TPOT, ITL],
  [Role.UNIFIED]: [TTFT, TPOT],
};

const QUANTILES = ["p50", "p95", "p99"] as const;

/** The latencies that this pool decides, live, beside the control that changes them. */
export function PoolLatency({ pool }: { readonly pool: PoolView }) {
  const frame = useLive((state) => newestFrame(state, pool.id));
  return (
    <table className={`figures ${classes.latency ?? ""}`} aria-label={`Live latency of ${pool.role}`}>
      <thead>
        <tr>
          <td />
          {QUANTILES.map((quantile) => (
            <th key={quantile} scope="col">
              {quantile}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {FIGURES[pool.role].map((figure) => (
          <tr key={figure.term} data-testid={`pool-${figure.term.toLowerCase()}`}>
            <th scope="row">
              <Tooltip label={figure.hint}>
                <span tabIndex={0}>{figure.term}</span>
              </Tooltip>
            </th>
            {QUANTILES.map((quantile) => (
              <td key={quantile}>{duration(frame === null ? null : figure.of(frame)[quantile])}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function newestFrame(state: LiveState, poolId: string): PoolFrame | null {
  const pools = state.frames.at(-1)?.deployments.flatMap((deployment) => deployment.pools) ?? [];
  return pools.find((one) => one.pool_id === poolId) ?? null;
}
