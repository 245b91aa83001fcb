// A WebSocket whose other end is the test.

export class FakeSocket {
  static opened: FakeSocket[] = [];

  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  closed = false;

  constructor(readonly url: string) {
    FakeSocket.opened.push(this);
  }

  close(): void {
    this.closed = true;
  }

  /** What the server sends. */
  receive(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  /** The connection ends from the other side. */
  drop(code = 1006): void {
    this.closed = true;
    this.onclose?.({ code });
  }

  static newest(): FakeSocket {
    const socket = FakeSocket.opened.at(-1);
    if (socket === undefined) throw new Error("no socket was opened");
    return socket;
  }
}
