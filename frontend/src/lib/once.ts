// Doing a change once, however often it is clicked, and although an answer may get lost on the way.

interface Pending {
  readonly key: string;
  readonly running: Promise<unknown> | null;
}

export class Writes {
  readonly #pending = new Map<string, Pending>();

  /** isDoubtful: whether after this error nobody knows if the change was made; then the same change keeps its key. */
  constructor(private readonly isDoubtful: (error: unknown) => boolean) {}

  /** Make the change `what` by `send`, which passes the key on; joins the same change while it is being made. */
  run<T>(what: string, send: (key: string) => Promise<T>): Promise<T> {
    const known = this.#pending.get(what);
    if (known?.running) return known.running as Promise<T>;
    const key = known?.key ?? newKey();
    const running = send(key).then(
      (answer) => {
        this.#pending.delete(what);
        return answer;
      },
      (error: unknown) => {
        if (this.isDoubtful(error)) this.#pending.set(what, { key, running: null });
        else this.#pending.delete(what);
        throw error;
      },
    );
    this.#pending.set(what, { key, running });
    return running;
  }
}

/** 128 random bits; `crypto.randomUUID` is missing on pages that come by plain HTTP. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
