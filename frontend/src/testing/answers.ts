// A control plane that answers what a test tells it to.

import { vi } from "vitest";

export interface Asked {
  readonly method: string;
  /** Without "/api/v1". */
  readonly path: string;
  readonly body: unknown;
  readonly key: string | null;
  readonly ifMatch: string | null;
}

/** Status, body, and headers where they matter. */
type Answer = readonly [number, unknown, Readonly<Record<string, string>>?];

/** Stands in for `fetch`: `answer` gives what each request gets; the requests that came are returned. */
export function answering(answer: (asked: Asked) => Answer): readonly Asked[] {
  const came: Asked[] = [];
  vi.stubGlobal("fetch", (url: string, options: RequestInit = {}) => {
    const asked: Asked = {
      method: options.method ?? "GET",
      path: url.replace("/api/v1", ""),
      body: typeof options.body === "string" ? JSON.parse(options.body) : undefined,
      key: new Headers(options.headers).get("Idempotency-Key"),
      ifMatch: new Headers(options.headers).get("If-Match"),
    };
    came.push(asked);
    const [status, body, headers = {}] = answer(asked);
    return Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status, headers }));
  });
  return came;
}
