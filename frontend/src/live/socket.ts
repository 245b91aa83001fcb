// The console's WebSocket: reconnects by itself with a growing, jittered delay and resumes where it was.

import type { ConsoleMessage } from "@/generated/contracts";

/** Close code of the server when there is no login. */
export const CLOSE_SIGNED_OUT = 4401;

export interface SocketTimings {
  /** First delay before a reconnect; doubles with each failure. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** So long without a message and what is shown is called stale (the server sends one each second). */
  readonly silentAfterMs: number;
  /** So long without a message and the connection is given up. */
  readonly deadAfterMs: number;
}

export const TIMINGS: SocketTimings = {
  firstDelayMs: 500,
  maxDelayMs: 15_000,
  silentAfterMs: 6_000,
  deadAfterMs: 20_000,
};

export interface SocketListener {
  onMessage(message: ConsoleMessage): void;
  onLost(): void;
  onSilent(): void;
  onSignedOut(): void;
  /** Stream position to resume from; null for a snapshot. */
  resumeFrom(): string | null;
}

export class ConsoleSocket {
  #socket: WebSocket | null = null;
  #attempts = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silent: ReturnType<typeof setTimeout> | undefined;
  #dead: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #needsSnapshot = false;

  constructor(
    private readonly url: string,
    private readonly listener: SocketListener,
    private readonly timings: SocketTimings = TIMINGS,
    private readonly random: () => number = Math.random,
  ) {
    this.#connect();
  }

  /** Try now instead of waiting out the delay (network back, tab visible again). */
  retryNow(): void {
    if (this.#socket === null && !this.#closed) this.#connect();
  }

  close(): void {
    this.#closed = true;
    this.#clearTimers();
    this.#drop();
  }

  #connect(): void {
    this.#clearTimers();
    const after = this.#needsSnapshot ? null : this.listener.resumeFrom();
    const socket = new WebSocket(after === null ? this.url : `${this.url}?after=${encodeURIComponent(after)}`);
    this.#socket = socket;
    socket.onmessage = (event: MessageEvent<string>) => this.#receive(event.data);
    socket.onclose = (event) => this.#lost(event.code);
    this.#watch();
  }

  #receive(data: string): void {
    let message: ConsoleMessage;
    try {
      message = JSON.parse(data) as ConsoleMessage;
    } catch {
      // Something was lost that can't be guessed at: start over from a snapshot.
      this.#needsSnapshot = true;
      this.#lost();
      return;
    }
    this.#attempts = 0;
    this.#needsSnapshot &&= message.type !== "snapshot";
    this.#watch();
    this.listener.onMessage(message);
  }

  #watch(): void {
    clearTimeout(this.#silent);
    clearTimeout(this.#dead);
    this.#silent = setTimeout(() => this.listener.onSilent(), this.timings.silentAfterMs);
    this.#dead = setTimeout(() => this.#lost(), this.timings.deadAfterMs);
  }

  #lost(code?: number): void {
    this.#clearTimers();
    this.#drop();
    if (this.#closed) return;
    if (code === CLOSE_SIGNED_OUT) {
      this.#closed = true;
      this.listener.onSignedOut();
      return;
    }
    this.listener.onLost();
    this.#retry = setTimeout(() => this.#connect(), this.#delay());
  }

  /** Half to all of a delay that doubles, so that many consoles do not come back at once. */
  #delay(): number {
    const ceiling = Math.min(this.timings.maxDelayMs, this.timings.firstDelayMs * 2 ** this.#attempts);
    this.#attempts += 1;
    return ceiling * (0.5 + this.random() / 2);
  }

  #drop(): void {
    if (this.#socket === null) return;
    this.#socket.onmessage = null;
    this.#socket.onclose = null;
    this.#socket.close();
    this.#socket = null;
  }

  #clearTimers(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#silent);
    clearTimeout(this.#dead);
  }
}
