// Server-sent events from a fetch body (WHATWG "event stream" format), incremental: chunks may end anywhere.

export interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
}

export class SseParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** The events that `chunk` completes. */
  push(chunk: string): ServerSentEvent[] {
    const text = this.#rest + chunk;
    // A final "\r" may be the first half of "\r\n": it waits for the next chunk.
    const lines = text.split(/\r\n|\n|\r(?=[^\n])/);
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#line(line));
  }

  #line(line: string): ServerSentEvent[] {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    if (field === "event") this.#event = value;
    return [];
  }

  #dispatch(): ServerSentEvent[] {
    const event = this.#event || "message";
    const data = this.#data;
    this.#event = "";
    this.#data = [];
    return data.length === 0 ? [] : [{ event, data: data.join("\n") }];
  }
}

/** Events of a response body as they arrive; ends with the body. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new SseParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
