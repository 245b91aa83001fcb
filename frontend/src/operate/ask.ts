// What the console asks of the control plane when somebody wants something done: tried first, then done.

import type { OperationView } from "@/generated/contracts";
import { ApiError, isRecord } from "@/lib/api";

/** A write that can be tried first: one that begins an operation, or changes something at once. */
export interface Ask {
  readonly method: "POST" | "PATCH" | "DELETE";
  readonly path: string;
  /** The version that was seen, where what is changed has one and the body does not name it. */
  readonly ifMatch?: string;
  /** Without the reason, which is added when it is sent. */
  readonly body?: Readonly<Record<string, unknown>>;
}

/** How it is sent. dryRun: only tried. queue: waits for what is in its way. */
export interface How {
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly queue?: boolean;
}

export function pathOf(ask: Ask, { dryRun = false, queue = false }: How): string {
  const parameters = [dryRun ? "dry_run=true" : null, queue ? "on_conflict=queue" : null].filter((one) => one !== null);
  return parameters.length === 0 ? ask.path : `${ask.path}?${parameters.join("&")}`;
}

export function bodyOf(ask: Ask, { reason }: How): Readonly<Record<string, unknown>> {
  return reason === undefined ? { ...ask.body } : { ...ask.body, reason: reason.trim() };
}

/** The operation that an answer tells of: as a part of it, or the answer itself. */
export function operationIn(answer: unknown): OperationView | null {
  if (!isRecord(answer)) return null;
  const told = isRecord(answer.operation) ? answer.operation : answer;
  return typeof told.id === "string" && Array.isArray(told.steps) ? (told as unknown as OperationView) : null;
}

/** Whether `error` refuses because somebody changed it since it was seen. */
export function isStale(error: unknown): boolean {
  return error instanceof ApiError && (error.code === "stale_generation" || error.code === "stale_version");
}

export interface InTheWay {
  readonly message: string;
  /** Id of the operation that has one of the targets; null where the refusal names none. */
  readonly operation: string | null;
}

/** What is in the way, where `error` is a refusal for that reason. */
export function inTheWay(error: unknown): InTheWay | null {
  if (!(error instanceof ApiError) || error.code !== "operation_conflict") return null;
  const id = error.current?.operation;
  return { message: error.message, operation: typeof id === "string" ? id : null };
}
