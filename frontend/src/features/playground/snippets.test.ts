import { expect, it } from "vitest";
import { curlSnippet, pythonSnippet } from "./snippets";

const request = {
  model: "small",
  max_tokens: 8,
  temperature: 0,
  messages: [{ role: "user", content: "It's" }],
} as const;

it("the curl snippet survives quotes in the question", () => {
  const snippet = curlSnippet("http://here:8100/v1/", request);
  expect(snippet).toContain("http://here:8100/v1/chat/completions");
  expect(snippet).toContain("It'\\''s");
});

it("the Python snippet names every option", () => {
  const snippet = pythonSnippet("http://here:8100", request);
  expect(snippet).toContain('base_url="http://here:8100/v1"');
  for (const line of ['model="small",', "max_tokens=8,", "temperature=0,", '{"role":"user","content":"It\'s"},']) {
    expect(snippet).toContain(line);
  }
});
