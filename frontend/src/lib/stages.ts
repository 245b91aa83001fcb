// The stages of a request and their colours, one mapping for charts, badges and waterfalls.

import { Role } from "@/generated/contracts";

export type Stage = "prefill" | "handoff" | "decode" | "neutral";

export const ROLE_STAGE: Readonly<Record<Role, Stage>> = {
  [Role.PREFILL]: "prefill",
  [Role.DECODE]: "decode",
  [Role.UNIFIED]: "neutral",
};

export const ROLE_LABEL: Readonly<Record<Role, string>> = {
  [Role.PREFILL]: "Prefill",
  [Role.DECODE]: "Decode",
  [Role.UNIFIED]: "Unified",
};

export const ROLE_MEANING: Readonly<Record<Role, string>> = {
  [Role.PREFILL]: "reads prompts, decides TTFT",
  [Role.DECODE]: "writes answers, decides TPOT",
  [Role.UNIFIED]: "reads prompts and writes answers",
};

/** CSS colour of a stage; level 1 is the strongest. */
export function stageColor(stage: Stage, level: 1 | 2 | 3 = 1): string {
  return level === 1 ? `var(--${stage})` : `var(--${stage}-${level})`;
}
