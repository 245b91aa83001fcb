import type { RequestTiming } from "@/generated/contracts";
import { ApiError, isRecord, parseRefusal, send } from "@/lib/api";
import { readEvents, type ServerSentEvent } from "@/lib/sse";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly max_tokens: number;
  readonly temperature: number;
  readonly seed?: number;
}

export type ChatEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "finish"; readonly reason: string }
  | { readonly type: "timings"; readonly timing: RequestTiming };

/**
 * Stream one answer. Ends after the server's last event.
 *
 * Throws ApiError when the request is refused, fails on the way, or breaks off; the signal's reason when aborted.
 */
export async function* streamChat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
  const response = await send("POST", "/playground/chat", { ...request, stream: true }, { signal });
  if (response.body === null) throw brokenOff();
  for await (const event of readEvents(response.body)) {
    if (event.data === "[DONE]") return;
    yield* readChatEvent(event);
  }
  throw brokenOff();
}

function brokenOff(): ApiError {
  return new ApiError(
    0,
    "broken_off",
    "The answer broke off before its end. The connection to the control plane was lost.",
  );
}

/** What one server-sent event means: OpenAI chunks, our closing `timings`, or an error in either's shape. */
export function readChatEvent({ event, data }: ServerSentEvent): ChatEvent[] {
  const refusal = parseRefusal(data);
  if (refusal !== null) throw new ApiError(0, refusal.code, refusal.message, refusal.field);
  const parsed: unknown = JSON.parse(data);
  if (event === "timings") return [{ type: "timings", timing: parsed as RequestTiming }];
  const choice = isRecord(parsed) && Array.isArray(parsed.choices) ? (parsed.choices[0] as unknown) : undefined;
  if (!isRecord(choice)) return [];
  const events: ChatEvent[] = [];
  if (isRecord(choice.delta) && typeof choice.delta.content === "string" && choice.delta.content !== "") {
    events.push({ type: "text", text: choice.delta.content });
  }
  if (typeof choice.finish_reason === "string") events.push({ type: "finish", reason: choice.finish_reason });
  return events;
}
