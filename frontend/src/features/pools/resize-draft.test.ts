import { describe, expect, it } from "vitest";
import { ApiError } from "@/lib/api";
import { poolView } from "@/testing/views";
import { beginDraft, consequence, movedTo, rebase } from "./resize-draft";

const stale = (generation: number, replicas: number): ApiError =>
  new ApiError(409, "stale_generation", "Changed.", "generation", { generation, replicas });

describe("a resize", () => {
  const draft = beginDraft(poolView({ generation: 3, replicas: 1 }), 4);

  it("keeps what was seen when it began", () => {
    expect(draft).toEqual({ seen: { generation: 3, replicas: 1 }, wanted: 4 });
    expect(movedTo(draft, poolView({ generation: 3, ready: 0 }), null)).toBeNull();
  });

  it("notices that the pool moved, by what is live or by the refusal, whichever is newer", () => {
    expect(movedTo(draft, poolView({ generation: 4, replicas: 2 }), null)).toEqual({ generation: 4, replicas: 2 });
    expect(movedTo(draft, poolView({ generation: 3 }), stale(5, 6))).toEqual({ generation: 5, replicas: 6 });
    expect(movedTo(draft, poolView({ generation: 6, replicas: 7 }), stale(5, 6))).toEqual({
      generation: 6,
      replicas: 7,
    });
  });

  it("is not stopped by refusals of another kind", () => {
    expect(movedTo(draft, poolView(), new ApiError(400, "over_capacity", "Too many.", "replicas"))).toBeNull();
    expect(movedTo(draft, poolView(), new ApiError(409, "stale_generation", "Changed."))).toBeNull();
  });

  it("goes on from what the pool is now once reviewed", () => {
    const reviewed = rebase(draft, { generation: 5, replicas: 6 });
    expect(reviewed).toEqual({ seen: { generation: 5, replicas: 6 }, wanted: 4 });
    expect(movedTo(reviewed, poolView({ generation: 5, replicas: 6 }), null)).toBeNull();
  });

  it("says what it will do", () => {
    expect(consequence("decode", 1, 2, 3)).toBe("1 decode worker starts and takes requests once ready.");
    expect(consequence("decode", 1, 3, 1)).toContain("Only 1 slot is free.");
    expect(consequence("prefill", 3, 1, 0)).toContain(
      "2 prefill workers take no new requests, finish what they have, then stop.",
    );
    expect(consequence("decode", 1, 0, 0)).toContain("this model answers no requests");
  });
});
