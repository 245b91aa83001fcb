import { Anchor, Paper, Text, Title } from "@mantine/core";
import { IconArrowNarrowRight } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { Role, type DeploymentView } from "@/generated/contracts";
import { Meter } from "@/components/meter";
import { RoleMark } from "@/components/role-mark";
import { bytes, count, duration, percent, rate, UNKNOWN } from "@/lib/format";
import { judge, stageLoad, type StageLoad } from "./bottleneck";
import classes from "./overview.module.css";
import { newest, ofRole, recentMean, type TimeWindow } from "./window";

interface FlowProps {
  readonly deployment: DeploymentView;
  readonly window: TimeWindow;
}

/** A request's way through the two pools, with what waits where: prefill, hand-off, decode. */
export function Flow({ deployment, window }: FlowProps) {
  const prefill = stageLoad(deployment, window, Role.PREFILL);
  const decode = stageLoad(deployment, window, Role.DECODE);
  const verdict = judge(deployment, prefill, decode);
  return (
    <Paper p="md" aria-label="Backlog per stage" component="section">
      <div className={classes.flow}>
        <Stage
          title={<RoleMark role={Role.PREFILL} />}
          aside={<Readiness stage={prefill} />}
          tint="var(--prefill-tint)"
          short={verdict.short === "prefill" || verdict.short === "both"}
        >
          <Figure label="prompts waiting" value={rate(prefill.waiting)} />
          <Figure label="tokens waiting" value={count(prefill.waitingTokens)} />
          <Figure label="being read" value={rate(prefill.running)} />
        </Stage>
        <Arrow />
        <Handoff window={window} />
        <Arrow />
        <Stage
          title={<RoleMark role={Role.DECODE} />}
          aside={<Readiness stage={decode} />}
          tint="var(--decode-tint)"
          short={verdict.short === "decode" || verdict.short === "both"}
        >
          <Figure label="being written" value={rate(decode.running)} />
          <Figure label="waiting" value={rate(decode.waiting)} />
          <Figure label="KV cache in use" value={percent(decode.kvShare)}>
            <Meter label="Decode KV cache in use" share={decode.kvShare} color="var(--decode)" warnAt={0.9} />
          </Figure>
        </Stage>
      </div>
      <div className={classes.verdict} data-short={verdict.short} data-testid="bottleneck">
        <Title order={3}>{verdict.title}</Title>
        <Text size="sm" c="dimmed" className="figures">
          {verdict.text}{" "}
          {verdict.short !== "neither" && (
            <Anchor component={Link} to="/pools" size="sm">
              Look at the pools
            </Anchor>
          )}
        </Text>
      </div>
    </Paper>
  );
}

function Readiness({ stage }: { readonly stage: StageLoad }) {
  return (
    <Text size="sm" c="dimmed" className="figures">
      {stage.ready} of {stage.replicas} ready
    </Text>
  );
}

function Handoff({ window }: { readonly window: TimeWindow }) {
  // Who received the bytes counts them; a transfer is timed by its sender.
  const received = recentMean(
    window,
    ofRole(Role.DECODE, (pool) => pool.transfer_bytes),
  );
  const p50 = newest(
    window,
    ofRole(Role.PREFILL, (pool) => pool.transfer.p50),
    10,
  );
  const p95 = newest(
    window,
    ofRole(Role.PREFILL, (pool) => pool.transfer.p95),
    10,
  );
  return (
    <Stage
      title={
        <Text fw={620} c="var(--handoff)" span>
          KV hand-off
        </Text>
      }
      tint="var(--handoff-tint)"
    >
      <Figure label="received" value={received === null ? UNKNOWN : `${bytes(received)}/s`} />
      <Figure label="transfer p50" value={duration(p50)} />
      <Figure label="transfer p95" value={duration(p95)} />
    </Stage>
  );
}

interface StageProps {
  readonly title: ReactNode;
  readonly aside?: ReactNode;
  readonly tint: string;
  readonly short?: boolean;
  readonly children: ReactNode;
}

function Stage({ title, aside, tint, short = false, children }: StageProps) {
  return (
    <div className={classes.stage} style={{ background: tint }} data-short={short || undefined}>
      <div className={classes.stageHead}>
        {title}
        {aside}
      </div>
      <dl className={classes.figures}>{children}</dl>
    </div>
  );
}

interface FigureProps {
  readonly label: string;
  readonly value: string;
  readonly children?: ReactNode;
}

function Figure({ label, value, children }: FigureProps) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{value}</dd>
      {children}
    </div>
  );
}

function Arrow() {
  return <IconArrowNarrowRight className={classes.arrow} size={28} stroke={1.5} aria-hidden />;
}
