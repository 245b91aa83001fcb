// A conversation that lives outside of the page: answers go on being written while one looks at the pools.

import { useSyncExternalStore } from "react";
import type { RequestTiming } from "@/generated/contracts";
import { messageOf } from "@/lib/api";
import { streamChat, type ChatEvent, type ChatMessage, type ChatRequest } from "./api/chat";

export interface ChatSettings {
  readonly model: string | null;
  readonly system: string;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number | null;
}

export interface Answer {
  readonly state: "waiting" | "streaming" | "done" | "stopped" | "failed";
  readonly text: string;
  readonly error: string | null;
  readonly finishReason: string | null;
  readonly timing: RequestTiming | null;
  /** Browser time at which it was asked. */
  readonly askedAt: number;
}

export interface Turn {
  readonly id: number;
  readonly model: string;
  readonly question: string;
  readonly answer: Answer;
}

export interface Conversation {
  readonly settings: ChatSettings;
  readonly turns: readonly Turn[];
}

const START: Conversation = {
  settings: { model: null, system: "", temperature: 0.7, maxTokens: 256, seed: null },
  turns: [],
};

type Stream = (request: ChatRequest, signal: AbortSignal) => AsyncIterable<ChatEvent>;

export class ChatSession {
  #state = START;
  #running: AbortController | null = null;
  #nextId = 1;
  readonly #listeners = new Set<() => void>();

  constructor(private readonly stream: Stream = streamChat) {}

  get = (): Conversation => this.#state;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  set(settings: Partial<ChatSettings>): void {
    this.#update({ ...this.#state, settings: { ...this.#state.settings, ...settings } });
  }

  /** Ask `question` of `model`, with the conversation so far before it. Does nothing while an answer is written. */
  async ask(model: string, question: string): Promise<void> {
    if (this.#running !== null) return;
    const running = new AbortController();
    this.#running = running;
    const request = requestOf(this.#state, model, question);
    const id = this.#nextId++;
    const answer: Answer = {
      state: "waiting",
      text: "",
      error: null,
      finishReason: null,
      timing: null,
      askedAt: Date.now(),
    };
    this.#update({ ...this.#state, turns: [...this.#state.turns, { id, model, question, answer }] });
    try {
      for await (const event of this.stream(request, running.signal)) this.#change(id, (old) => absorb(old, event));
      this.#change(id, (old) => ({ ...old, state: "done" }));
    } catch (error) {
      this.#change(id, (old) =>
        running.signal.aborted ? { ...old, state: "stopped" } : { ...old, state: "failed", error: messageOf(error) },
      );
    } finally {
      if (this.#running === running) this.#running = null;
      this.#update({ ...this.#state });
    }
  }

  /** Ask the last question again, in place of its answer. */
  async retry(): Promise<void> {
    const last = this.#state.turns.at(-1);
    if (last === undefined || this.#running !== null) return;
    this.#update({ ...this.#state, turns: this.#state.turns.slice(0, -1) });
    await this.ask(last.model, last.question);
  }

  stop(): void {
    this.#running?.abort();
  }

  clear(): void {
    this.stop();
    this.#running = null;
    this.#update({ ...this.#state, turns: [] });
  }

  #change(id: number, change: (answer: Answer) => Answer): void {
    const turns = this.#state.turns.map((turn) => (turn.id === id ? { ...turn, answer: change(turn.answer) } : turn));
    this.#update({ ...this.#state, turns });
  }

  #update(state: Conversation): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

function absorb(answer: Answer, event: ChatEvent): Answer {
  switch (event.type) {
    case "text":
      return { ...answer, state: "streaming", text: answer.text + event.text };
    case "finish":
      return { ...answer, finishReason: event.reason };
    case "timings":
      return { ...answer, timing: event.timing };
  }
}

/** The request for `question` after everything that was answered before. */
export function requestOf({ settings, turns }: Conversation, model: string, question: string): ChatRequest {
  const messages: ChatMessage[] = [];
  if (settings.system.trim() !== "") messages.push({ role: "system", content: settings.system });
  for (const turn of turns) {
    if (turn.answer.text === "") continue;
    messages.push({ role: "user", content: turn.question }, { role: "assistant", content: turn.answer.text });
  }
  messages.push({ role: "user", content: question });
  return {
    model,
    messages,
    max_tokens: settings.maxTokens,
    temperature: settings.temperature,
    ...(settings.seed === null ? {} : { seed: settings.seed }),
  };
}

/** Whether an answer is being written. */
export function isBusy({ turns }: Conversation): boolean {
  const state = turns.at(-1)?.answer.state;
  return state === "waiting" || state === "streaming";
}

/** The one conversation of this browser tab. */
export const chat = new ChatSession();

export function useConversation(): Conversation {
  return useSyncExternalStore(chat.subscribe, chat.get);
}
