import { Text, Tooltip } from "@mantine/core";
import { KVTransport, PrefillPath, type RequestTiming } from "@/generated/contracts";
import { Waterfall } from "@/components/waterfall";
import { bytes, duration, plural } from "@/lib/format";
import { findWorker, useDeployments } from "@/live/hooks";
import classes from "./playground.module.css";

/** What one answer cost: its latencies, its way through the workers, and the stages until its first token. */
export function AnswerFacts({ timing }: { readonly timing: RequestTiming }) {
  return (
    <div className={classes.facts} data-testid="answer-facts">
      <dl className={`figures ${classes.numbers ?? ""}`}>
        <Fact
          term="TTFT"
          value={duration(timing.ttft_s)}
          hint="Time to first token: the request has arrived whole until its first token leaves the router"
        />
        <Fact
          term="TPOT"
          value={duration(timing.tpot_s)}
          hint="Time per output token: from the first token to the last, divided by the tokens after the first"
        />
        <Fact
          term="Total"
          value={duration(timing.e2e_s)}
          hint="The request has arrived whole until the last token leaves"
        />
        <Fact
          term="Tokens"
          value={`${timing.prompt_tokens} → ${timing.completion_tokens}`}
          hint={`${plural(timing.prompt_tokens, "prompt token")}, ${timing.cached_tokens} of them cached; ${plural(timing.completion_tokens, "token")} written`}
        />
        <Fact term="Path" value={<Path timing={timing} />} hint={pathHint(timing)} />
      </dl>
      <Waterfall timing={timing} />
      <Text size="xs" c="dimmed" className="figures">
        {afterFirstToken(timing)}
      </Text>
    </div>
  );
}

interface FactProps {
  readonly term: string;
  readonly value: React.ReactNode;
  readonly hint: string;
}

function Fact({ term, value, hint }: FactProps) {
  return (
    <div>
      <dt>{term}</dt>
      <Tooltip label={hint}>
        <dd tabIndex={0}>{value}</dd>
      </Tooltip>
    </div>
  );
}

function Path({ timing }: { readonly timing: RequestTiming }) {
  const deployments = useDeployments();
  const name = (id: string): string => findWorker(deployments, id)?.worker.name ?? id.slice(0, 12);
  if (timing.path === PrefillPath.LOCAL || timing.prefill_worker === null) {
    return (
      <>
        local on <span className={classes.decode}>{name(timing.decode_worker)}</span>
      </>
    );
  }
  return (
    <>
      <span className={classes.prefill}>{name(timing.prefill_worker)}</span>
      <span aria-label="handed over to"> → </span>
      <span className={classes.decode}>{name(timing.decode_worker)}</span>
    </>
  );
}

const TRANSPORTS: Record<KVTransport, string> = {
  [KVTransport.SHARED_MEMORY]: "shared memory",
  [KVTransport.TCP]: "TCP",
  [KVTransport.NIXL]: "NIXL",
};

function pathHint(timing: RequestTiming): string {
  return timing.path === PrefillPath.LOCAL
    ? "The prompt was short: the decode worker read it itself, without a hand-off"
    : "Prefill read the prompt and handed its KV cache to decode, which wrote the answer";
}

/** The hand-off lies after the first token: the reader has it already. */
function afterFirstToken(timing: RequestTiming): string {
  if (timing.first_gap_s === null) return "";
  const parts = [
    timing.handoff_s === null ? null : `hand-off ${duration(timing.handoff_s)}`,
    timing.decode_wait_s === null ? null : `wait for decode ${duration(timing.decode_wait_s)}`,
  ].filter((part) => part !== null);
  const within = parts.length === 0 ? "" : ` (${parts.join(", ")})`;
  const way = timing.transport === null ? "" : ` by ${TRANSPORTS[timing.transport]}`;
  const pace = timing.transfer_s ? ` at ${bytes((timing.handoff_bytes ?? 0) / timing.transfer_s)}/s` : "";
  const moved =
    timing.handoff_bytes === null ? "" : ` ${bytes(timing.handoff_bytes)} of KV cache were handed over${way}${pace}.`;
  const retried = timing.retries === 0 ? "" : ` ${plural(timing.retries, "retry", "retries")} on the way.`;
  return `Then the second token after ${duration(timing.first_gap_s)}${within}.${moved}${retried}`;
}
