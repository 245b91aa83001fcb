import { describe, expect, it } from "vitest";
import { DEFAULT_MODEL_SHAPE } from "@/generated/contracts";
import { UNKNOWN } from "@/lib/format";
import { modelView } from "@/testing/views";
import { enginesOf, kvInWords, parametersInWords, weightsInWords } from "./shape";

describe("a model", () => {
  it("of which nothing is known says so", () => {
    expect(parametersInWords(null)).toBe(UNKNOWN);
    expect(weightsInWords(DEFAULT_MODEL_SHAPE)).toBe(UNKNOWN);
    expect(kvInWords(modelView())).toBe(UNKNOWN);
    expect(enginesOf(null)).toBeNull();
  });

  it("tells parameters, with those that a token uses where experts make a difference", () => {
    expect(parametersInWords({ ...DEFAULT_MODEL_SHAPE, parameters: 8.19e9 })).toBe("8.19B");
    expect(parametersInWords({ ...DEFAULT_MODEL_SHAPE, parameters: 30.5e9, active_parameters: 3.3e9 })).toBe(
      "30.50B, 3.30B active per token",
    );
  });

  it("tells what a token and a full context keep", () => {
    expect(kvInWords(modelView({ kv_bytes_per_token: 23040, kv_bytes_of_context: 188743680 }))).toBe(
      "22.5 KiB a token, 180 MiB for a full context",
    );
  });
});
