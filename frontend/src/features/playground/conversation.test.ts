import { describe, expect, it } from "vitest";
import { ApiError } from "@/lib/api";
import { requestTiming } from "@/testing/views";
import { readChatEvent, type ChatEvent, type ChatRequest } from "./api/chat";
import { ChatSession, isBusy } from "./conversation";

/** A session whose answers the test writes. */
function scripted(...answers: (readonly (ChatEvent | Error)[])[]) {
  const asked: ChatRequest[] = [];
  const session = new ChatSession(async function* (request, signal) {
    asked.push(request);
    for (const event of answers[asked.length - 1] ?? []) {
      await Promise.resolve();
      signal.throwIfAborted();
      if (event instanceof Error) throw event;
      yield event;
    }
  });
  return { session, asked };
}

const text = (value: string): ChatEvent => ({ type: "text", text: value });

describe("a conversation", () => {
  it("builds the answer from its pieces and keeps the timings", async () => {
    const timing = requestTiming();
    const { session } = scripted([
      text("Hel"),
      text("lo"),
      { type: "finish", reason: "stop" },
      { type: "timings", timing },
    ]);
    await session.ask("small", "Hi");
    expect(session.get().turns[0]?.answer).toMatchObject({
      state: "done",
      text: "Hello",
      finishReason: "stop",
      timing,
    });
    expect(isBusy(session.get())).toBe(false);
  });

  it("sends what was said before, without answers that never came", async () => {
    const { session, asked } = scripted(
      [text("One")],
      [new ApiError(503, "not_ready", "No pair is ready.")],
      [text("Three")],
    );
    session.set({ system: "Be brief.", seed: 7, temperature: 0, maxTokens: 9 });
    for (const question of ["1?", "2?", "3?"]) await session.ask("small", question);
    expect(asked[2]).toEqual({
      model: "small",
      max_tokens: 9,
      temperature: 0,
      seed: 7,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "1?" },
        { role: "assistant", content: "One" },
        { role: "user", content: "3?" },
      ],
    });
  });

  it("says why it failed, and asks the same again on retry", async () => {
    const { session, asked } = scripted(
      [text("Ha"), new ApiError(503, "not_ready", "No pair is ready.")],
      [text("Hello")],
    );
    await session.ask("small", "Hi");
    expect(session.get().turns[0]?.answer).toMatchObject({ state: "failed", error: "No pair is ready.", text: "Ha" });
    await session.retry();
    expect(asked[1]?.messages).toEqual([{ role: "user", content: "Hi" }]);
    expect(session.get().turns.map((turn) => turn.answer.text)).toEqual(["Hello"]);
  });

  it("keeps what was written when it is stopped", async () => {
    const { session } = scripted([text("Hel"), text("lo"), text(" you")]);
    const stopAt = session.subscribe(() => {
      if (session.get().turns[0]?.answer.text === "Hello") session.stop();
    });
    await session.ask("small", "Hi");
    stopAt();
    expect(session.get().turns[0]?.answer).toMatchObject({ state: "stopped", text: "Hello" });
  });

  it("answers one question at a time", async () => {
    const { session, asked } = scripted([text("a")], [text("b")]);
    await Promise.all([session.ask("small", "1"), session.ask("small", "2")]);
    expect(asked).toHaveLength(1);
  });

  it("can be cleared while an answer is written", async () => {
    const { session } = scripted([text("a"), text("b")], [text("c")]);
    const first = session.ask("small", "1");
    session.clear();
    await session.ask("small", "2");
    await first;
    expect(session.get().turns.map((turn) => turn.answer.text)).toEqual(["c"]);
  });
});

describe("chat events", () => {
  it("read OpenAI chunks, timings and errors", () => {
    const chunk = { choices: [{ delta: { content: "Hi" }, finish_reason: "stop" }] };
    expect(readChatEvent({ event: "message", data: JSON.stringify(chunk) })).toEqual([
      { type: "text", text: "Hi" },
      { type: "finish", reason: "stop" },
    ]);
    expect(readChatEvent({ event: "message", data: JSON.stringify({ choices: [], usage: {} }) })).toEqual([]);
    const timing = requestTiming();
    expect(readChatEvent({ event: "timings", data: JSON.stringify(timing) })).toEqual([{ type: "timings", timing }]);
    const error = { error: { message: "The engine failed.", code: "engine_failed" } };
    expect(() => readChatEvent({ event: "message", data: JSON.stringify(error) })).toThrow("The engine failed.");
  });
});
