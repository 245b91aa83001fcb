// The one way to call the control plane: JSON in and out, CSRF on every change, each change once, one error shape.

import { Writes } from "./once";

export class ApiError extends Error {
  constructor(
    /** HTTP status; 0 when no answer came. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field: string | null = null,
    readonly current: Readonly<Record<string, unknown>> | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

let csrfToken = "";
let onSignedOut: () => void = () => undefined;

/** The token for changes: every answer of the session endpoint carries the current one. */
export function rememberCsrf(token: string): void {
  csrfToken = token;
}

/** Called whenever the server says 401 to a call that needs a login. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

interface SendOptions {
  readonly signal?: AbortSignal;
  /** Names this change: sent again under the same key, it is done once. */
  readonly key?: string;
  /** The version that the caller saw; another one there now is refused. */
  readonly ifMatch?: string;
}

/** Send one request and hand back the response once its status is good. */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  { signal, key, ifMatch }: SendOptions = {},
): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = csrfToken;
  if (key !== undefined) headers["Idempotency-Key"] = key;
  if (ifMatch !== undefined) headers["If-Match"] = ifMatch;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The control plane did not answer. Check that it runs and try again.");
  }
  if (!response.ok) {
    const refusal = await readRefusal(response);
    if (response.status === 401 && refusal.code !== "bad_credentials") onSignedOut();
    throw refusal;
  }
  return response;
}

const writes = new Writes(isDoubtful);

/** `send`, and the answer's JSON. T is what the contracts say this call answers. A change is made once, however often
 * it is clicked; a trial run (`dry_run`) changes nothing and needs no such care. */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  { ifMatch }: Pick<SendOptions, "ifMatch"> = {},
): Promise<T> {
  const version = ifMatch === undefined ? {} : { ifMatch };
  const isChange = method !== "GET" && !path.includes("dry_run=true");
  if (!isChange) return answerOf<T>(await send(method, path, body, version));
  const what = JSON.stringify([method, path, body, ifMatch]);
  return writes.run(what, async (key) => answerOf<T>(await send(method, path, body, { key, ...version })));
}

/** Something as it was seen, with the version that a change to it names as `ifMatch`. */
export interface Versioned<T> {
  readonly value: T;
  readonly version: string;
}

export async function read<T>(path: string): Promise<Versioned<T>> {
  const response = await send("GET", path);
  return { value: (await response.json()) as T, version: response.headers.get("ETag") ?? "*" };
}

async function answerOf<T>(response: Response): Promise<T> {
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Whether after `error` nobody knows if the change was made. */
function isDoubtful(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true;
  return error.status === 0 || error.status >= 500 || error.code === "still_running";
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** Every item of a list, page after page. */
export async function callAll<T>(path: string): Promise<readonly T[]> {
  const items: T[] = [];
  let next: string | null = null;
  do {
    const cursor: string = next === null ? "" : `${path.includes("?") ? "&" : "?"}cursor=${next}`;
    const page: Page<T> = await call<Page<T>>("GET", path + cursor);
    items.push(...page.items);
    next = page.next;
  } while (next !== null);
  return items;
}

async function readRefusal(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  const error = parseRefusal(text);
  if (error !== null) return new ApiError(response.status, error.code, error.message, error.field, error.current);
  return new ApiError(
    response.status,
    "unexpected",
    `The control plane answered ${response.status} without saying why. Its log has the reason.`,
  );
}

export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly field: string | null;
  readonly current: Readonly<Record<string, unknown>> | null;
}

/** `path` with those parameters that have a value. */
export function withQuery(path: string, parameters: Readonly<Record<string, string | number | null>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== "");
  if (given.length === 0) return path;
  return `${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}`;
}

/** A refusal: the management API's problem details, or the serving API's OpenAI error; null when it is neither. */
export function parseRefusal(text: string): Refusal | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isRecord(parsed)) return null;
  if (typeof parsed.detail === "string") return refusal(parsed.detail, parsed.code, parsed.field, parsed.current);
  if (!isRecord(parsed.error) || typeof parsed.error.message !== "string") return null;
  const { message, code, type, param } = parsed.error;
  return refusal(message, code ?? type, param, null);
}

function refusal(message: string, code: unknown, field: unknown, current: unknown): Refusal {
  return {
    code: typeof code === "string" ? code : "error",
    message,
    field: typeof field === "string" ? field : null,
    current: isRecord(current) ? current : null,
  };
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** One sentence for the reader, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
