import { describe, expect, it } from "vitest";
import { readEvents, SseParser } from "./sse";

describe("the event stream parser", () => {
  it("reads events whatever the chunks", () => {
    const text = 'data: {"a":1}\n\nevent: timings\ndata: {"b":2}\n\n: comment\n\ndata: [DONE]\n\n';
    const whole = new SseParser().push(text);
    const parser = new SseParser();
    const piecemeal = Array.from(text).flatMap((character) => parser.push(character));
    expect(piecemeal).toEqual(whole);
    expect(whole).toEqual([
      { event: "message", data: '{"a":1}' },
      { event: "timings", data: '{"b":2}' },
      { event: "message", data: "[DONE]" },
    ]);
  });

  it("reads every line ending, split anywhere", () => {
    const parser = new SseParser();
    const events = ["data: a\r", "\n\r\ndata: b\r\rdata: c\n\n"].flatMap((chunk) => parser.push(chunk));
    expect(events.map((event) => event.data)).toEqual(["a", "b", "c"]);
  });

  it("joins data lines and takes off one space only", () => {
    expect(new SseParser().push("data:  x\ndata:y\ndata\n\n")).toEqual([{ event: "message", data: " x\ny\n" }]);
  });

  it("does not hand out an event that was never finished", () => {
    expect(new SseParser().push("data: half")).toEqual([]);
  });

  it("decodes characters that are split between chunks", async () => {
    const bytes = new TextEncoder().encode("data: 안녕 🚲\n\n");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const events = [];
    for await (const event of readEvents(body)) events.push(event.data);
    expect(events).toEqual(["안녕 🚲"]);
  });
});
