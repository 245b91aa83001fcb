import { describe, expect, it } from "vitest";
import { deploymentView } from "@/testing/views";
import { judge, judgeUnified, type StageLoad } from "./bottleneck";

const idle: StageLoad = { replicas: 1, ready: 1, running: 0, waiting: 0, waitingTokens: 0, kvShare: 0.1 };

describe("the bottleneck", () => {
  it("is prefill when prompts wait while decode has room", () => {
    const verdict = judge(deploymentView(), { ...idle, waiting: 3.2, waitingTokens: 1640 }, idle);
    expect(verdict.short).toBe("prefill");
    expect(verdict.text).toContain("3.2 prompts (1,640 tokens)");
  });

  it("is decode when its KV cache is nearly full, or requests wait for it", () => {
    expect(judge(deploymentView(), idle, { ...idle, kvShare: 0.95 }).short).toBe("decode");
    expect(judge(deploymentView(), idle, { ...idle, waiting: 2 }).short).toBe("decode");
  });

  it("is both when both are short, and neither when none is", () => {
    expect(judge(deploymentView(), { ...idle, waiting: 5 }, { ...idle, kvShare: 0.95 }).short).toBe("both");
    expect(judge(deploymentView(), idle, idle).short).toBe("neither");
  });

  it("of a unified pool is the pool itself or nothing", () => {
    expect(judgeUnified(deploymentView(), { ...idle, waiting: 3 }).short).toBe("unified");
    expect(judgeUnified(deploymentView(), idle).short).toBe("neither");
    expect(judgeUnified(deploymentView(), { ...idle, waiting: null }).short).toBe("unknown");
  });

  it("counts waiting per ready worker", () => {
    expect(judge(deploymentView(), { ...idle, ready: 4, waiting: 3 }, idle).short).toBe("neither");
  });

  it("is not named when it isn't known, or when nothing is served", () => {
    expect(judge(deploymentView(), { ...idle, waiting: null }, idle).short).toBe("unknown");
    expect(judge(deploymentView(), idle, { ...idle, kvShare: null }).short).toBe("unknown");
    const down = judge(deploymentView({ serving: false, status: "No decode worker is ready" }), idle, idle);
    expect(down).toMatchObject({ short: "unknown", text: "No decode worker is ready" });
  });
});
