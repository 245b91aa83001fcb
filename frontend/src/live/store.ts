// Holds the live state outside of React, so that a frame a second re-renders only what reads frames.

import { ConsoleSocket } from "./socket";
import { EMPTY, reduce, type LiveAction, type LiveState } from "./state";

export class LiveStore {
  #state: LiveState = EMPTY;
  readonly #listeners = new Set<() => void>();

  get = (): LiveState => this.#state;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  dispatch(action: LiveAction): void {
    const next = reduce(this.#state, action);
    if (next === this.#state) return;
    this.#state = next;
    for (const listener of this.#listeners) listener();
  }
}

/** Keep `store` current until the returned function is called. */
export function follow(store: LiveStore, url: string): () => void {
  const socket = new ConsoleSocket(url, {
    onMessage: (message) => store.dispatch({ type: "message", message, at: Date.now() }),
    onLost: () => store.dispatch({ type: "lost", at: Date.now() }),
    onSilent: () => store.dispatch({ type: "silent", at: Date.now() }),
    onSignedOut: () => store.dispatch({ type: "signed-out" }),
    resumeFrom: () => store.get().seq,
  });
  const retry = (): void => socket.retryNow();
  window.addEventListener("online", retry);
  document.addEventListener("visibilitychange", retry);
  return () => {
    window.removeEventListener("online", retry);
    document.removeEventListener("visibilitychange", retry);
    socket.close();
  };
}

/** Address of the console socket on the page's own origin. */
export function socketUrl(): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/console`;
}
