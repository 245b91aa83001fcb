// The same request for other programs.

import type { ChatRequest } from "./api/chat";

export const KEY_VARIABLE = "TANDEM_API_KEY";

export function curlSnippet(servingUrl: string, request: ChatRequest): string {
  const body = JSON.stringify({ ...request, stream: true }, null, 2).replaceAll("'", "'\\''");
  return [
    `curl -N ${base(servingUrl)}/v1/chat/completions \\`,
    `  -H "Authorization: Bearer $${KEY_VARIABLE}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '${body}'`,
  ].join("\n");
}

export function pythonSnippet(servingUrl: string, request: ChatRequest): string {
  const { messages, ...options } = request;
  const lines = messages.map((message) => `        ${JSON.stringify(message)},`);
  const rest = Object.entries(options).map(([name, value]) => `    ${name}=${JSON.stringify(value)},`);
  return [
    "import os",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${base(servingUrl)}/v1", api_key=os.environ["${KEY_VARIABLE}"])`,
    "stream = client.chat.completions.create(",
    "    messages=[",
    ...lines,
    "    ],",
    ...rest,
    "    stream=True,",
    ")",
    "for chunk in stream:",
    "    if chunk.choices:",
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join("\n");
}

function base(servingUrl: string): string {
  return servingUrl.replace(/\/+$/, "").replace(/\/v1$/, "");
}
