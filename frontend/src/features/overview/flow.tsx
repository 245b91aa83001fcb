import { Anchor, Paper, Text, Title } from "@mantine/core";
import { IconArrowNarrowRight } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { Role, type DeploymentView } from "@/generated/contracts";
import { Meter } from "@/components/meter";
import { RoleMark } from "@/components/role-mark";
import { bytes, count, duration, percent, rate, UNKNOWN } from "@/lib/format";
import { ROLE_STAGE, stageColor } from "@/lib/stages";
import { judge, judgeUnified, stageLoad, type StageLoad } from "./bottleneck";
import classes from "./overview.module.css";
import { newest, ofRole, recentMean, type TimeWindow } from "./window";

interface FlowProps {
  readonly deployment: DeploymentView;
  readonly window: TimeWindow;
}

/** A request's way through its pools, with what waits where: prefill, hand-off, decode; or one unified pool. */
export function Flow({ deployment, window }: FlowProps) {
  const unified = deployment.pools.some((pool) => pool.role === Role.UNIFIED);
  const load = (role: Role): StageLoad => stageLoad(deployment, window, role);
  const verdict = unified
    ? judgeUnified(deployment, load(Role.UNIFIED))
    : judge(deployment, load(Role.PREFILL), load(Role.DECODE));
  const isShort = (role: Role): boolean => verdict.short === role || verdict.short === "both";
  return (
    <Paper p="md" aria-label="Backlog per stage" component="section" className={classes.frame}>
      {unified ? (
        <AnsweringStage role={Role.UNIFIED} load={load(Role.UNIFIED)} short={isShort(Role.UNIFIED)} />
      ) : (
        <div className={classes.flow}>
          <PrefillStage load={load(Role.PREFILL)} short={isShort(Role.PREFILL)} />
          <Arrow />
          <Handoff window={window} />
          <Arrow />
          <AnsweringStage role={Role.DECODE} load={load(Role.DECODE)} short={isShort(Role.DECODE)} />
        </div>
      )}
      <div className={classes.verdict} data-short={verdict.short} data-testid="bottleneck">
        <Title order={2} size="h3">
          {verdict.title}
        </Title>
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

interface LoadProps {
  readonly load: StageLoad;
  readonly short: boolean;
}

function PrefillStage({ load, short }: LoadProps) {
  return (
    <Stage
      title={<RoleMark role={Role.PREFILL} />}
      aside={<Readiness load={load} />}
      tint="var(--prefill-tint)"
      short={short}
    >
      <Figure label="prompts waiting" value={rate(load.waiting)} />
      <Figure label="tokens waiting" value={count(load.waitingTokens)} />
      <Figure label="being read" value={rate(load.running)} />
    </Stage>
  );
}

/** The stage that writes answers: decode, or unified workers. */
function AnsweringStage({ role, load, short }: LoadProps & { readonly role: Role }) {
  return (
    <Stage
      title={<RoleMark role={role} />}
      aside={<Readiness load={load} />}
      tint={role === Role.DECODE ? "var(--decode-tint)" : "var(--page)"}
      short={short}
    >
      <Figure label="being written" value={rate(load.running)} />
      <Figure label="waiting" value={rate(load.waiting)} />
      <Figure label="KV cache in use" value={percent(load.kvShare)}>
        <Meter label="KV cache in use" share={load.kvShare} color={stageColor(ROLE_STAGE[role])} warnAt={0.9} />
      </Figure>
    </Stage>
  );
}

function Readiness({ load }: { readonly load: StageLoad }) {
  return (
    <Text size="sm" c="dimmed" className="figures">
      {load.ready} of {load.replicas} ready
    </Text>
  );
}

function Handoff({ window }: { readonly window: TimeWindow }) {
  // The sender counts the bytes and times the transfer.
  const sent = recentMean(
    window,
    ofRole(Role.PREFILL, (pool) => pool.transfer_bytes),
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
      <Figure label="moved" value={sent === null ? UNKNOWN : `${bytes(sent)}/s`} />
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
      <dd>
        {value}
        {children}
      </dd>
    </div>
  );
}

function Arrow() {
  return <IconArrowNarrowRight className={classes.arrow} size={28} stroke={1.5} aria-hidden />;
}
