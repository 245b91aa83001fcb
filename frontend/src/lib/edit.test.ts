import { describe, expect, it } from "vitest";
import { beginEdit, changedIn, changesAnything, rebased } from "./edit";

const pool = { least: 0, most: 8, labels: ["fast"] };

describe("an edit", () => {
  it("sends only what is wanted otherwise", () => {
    expect(changesAnything(beginEdit(pool))).toBe(false);
    expect(changesAnything({ seen: pool, wanted: { ...pool, labels: ["fast"] } })).toBe(false);
    expect(changedIn({ seen: pool, wanted: { ...pool, most: 4, labels: [] } })).toEqual({ most: 4, labels: [] });
  });

  it("of what somebody changed meanwhile keeps what was entered, and takes the rest from them", () => {
    const edit = rebased({ seen: pool, wanted: { ...pool, most: 4 } }, { least: 1, most: 16, labels: ["slow"] });
    expect(edit.wanted).toEqual({ least: 1, most: 4, labels: ["slow"] });
    expect(changedIn(edit)).toEqual({ most: 4 });
  });
});
