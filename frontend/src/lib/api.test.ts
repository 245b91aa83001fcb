import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, call, callAll, parseRefusal, rememberCsrf, whenSignedOut } from "./api";

function answerWith(status: number, body: string): ReturnType<typeof vi.fn<typeof fetch>> {
  const fetcher = vi.fn<typeof fetch>(() => Promise.resolve(new Response(body === "" ? null : body, { status })));
  vi.stubGlobal("fetch", fetcher);
  return fetcher;
}

async function refusalOf(promise: Promise<unknown>): Promise<ApiError> {
  const error: unknown = await promise.catch((thrown: unknown) => thrown);
  if (!(error instanceof ApiError)) throw new Error("expected an ApiError");
  return error;
}

afterEach(() => {
  vi.unstubAllGlobals();
  whenSignedOut(() => undefined);
});

describe("calling the control plane", () => {
  it("sends the CSRF token with changes and not with reads", async () => {
    rememberCsrf("t0ken");
    const fetcher = answerWith(200, "{}");
    await call("GET", "/nodes");
    await call("POST", "/keys", { name: "bot" });
    expect(fetcher.mock.calls[0]?.[1]?.headers).not.toHaveProperty("X-CSRFToken");
    expect(fetcher.mock.calls[1]?.[1]).toMatchObject({
      method: "POST",
      body: '{"name":"bot"}',
      headers: { "X-CSRFToken": "t0ken", "Content-Type": "application/json" },
    });
  });

  it("hands back nothing for an empty answer", async () => {
    answerWith(204, "");
    await expect(call("DELETE", "/keys/1")).resolves.toBeUndefined();
  });

  it("throws the refusal with its code, field and current value", async () => {
    answerWith(
      409,
      JSON.stringify({
        type: "urn:tandem:problem:stale_generation",
        status: 409,
        detail: "Changed.",
        code: "stale_generation",
        field: "generation",
        current: { generation: 4, replicas: 2 },
      }),
    );
    expect(await refusalOf(call("PATCH", "/pools/1", {}))).toMatchObject({
      status: 409,
      code: "stale_generation",
      message: "Changed.",
      field: "generation",
      current: { generation: 4, replicas: 2 },
    });
  });

  it("reads a list to its end, page after page", async () => {
    const pages = [
      { items: [1, 2], next: "c2" },
      { items: [3], next: null },
    ];
    const fetcher = vi.fn<typeof fetch>(() => Promise.resolve(new Response(JSON.stringify(pages.shift()))));
    vi.stubGlobal("fetch", fetcher);
    await expect(callAll("/keys?active=true")).resolves.toEqual([1, 2, 3]);
    expect(fetcher.mock.calls.map(([url]) => url)).toEqual([
      "/api/v1/keys?active=true",
      "/api/v1/keys?active=true&cursor=c2",
    ]);
  });

  it("says what happened when the answer is no JSON or never came", async () => {
    answerWith(502, "<html>bad gateway</html>");
    expect((await refusalOf(call("GET", "/nodes"))).message).toContain("502");
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
    expect(await refusalOf(call("GET", "/nodes"))).toMatchObject({ status: 0, code: "unreachable" });
  });

  it("reports a lost login, but not a wrong password", async () => {
    const signedOut = vi.fn();
    whenSignedOut(signedOut);
    answerWith(401, JSON.stringify({ code: "bad_credentials", detail: "No." }));
    await refusalOf(call("POST", "/session", {}));
    expect(signedOut).not.toHaveBeenCalled();
    answerWith(401, JSON.stringify({ code: "not_authenticated", detail: "Sign in." }));
    await refusalOf(call("GET", "/nodes"));
    expect(signedOut).toHaveBeenCalledTimes(1);
  });

  it("reads OpenAI's shape of errors too", () => {
    const text = JSON.stringify({
      error: { message: "Too long.", type: "invalid_request_error", param: "max_tokens", code: null },
    });
    expect(parseRefusal(text)).toEqual({
      code: "invalid_request_error",
      message: "Too long.",
      field: "max_tokens",
      current: null,
    });
    expect(parseRefusal("{}")).toBeNull();
    expect(parseRefusal("not json")).toBeNull();
  });
});
