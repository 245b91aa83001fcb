import { describe, expect, it } from "vitest";
import { Writes } from "./once";

class Lost extends Error {}

const writes = (): Writes => new Writes((error) => error instanceof Lost);

describe("a change", () => {
  it("is sent once for two clicks, and both get its answer", async () => {
    const once = writes();
    const keys: string[] = [];
    const send = (key: string): Promise<number> => Promise.resolve(keys.push(key));
    await expect(Promise.all([once.run("POST /a", send), once.run("POST /a", send)])).resolves.toEqual([1, 1]);
    expect(keys).toHaveLength(1);
  });

  it("has a new key when it is asked for again after its answer or its refusal", async () => {
    const once = writes();
    const keys: string[] = [];
    const refuse = (key: string): Promise<never> => {
      keys.push(key);
      return Promise.reject(new Error("no"));
    };
    await once.run("POST /a", (key) => Promise.resolve(keys.push(key)));
    await once.run("POST /a", refuse).catch(() => undefined);
    await once.run("POST /a", (key) => Promise.resolve(keys.push(key)));
    expect(new Set(keys).size).toBe(3);
  });

  it("keeps its key while nobody knows whether it was made", async () => {
    const once = writes();
    const keys: string[] = [];
    const lose = (key: string): Promise<never> => {
      keys.push(key);
      return Promise.reject(new Lost());
    };
    await once.run("POST /a", lose).catch(() => undefined);
    await once.run("POST /b", lose).catch(() => undefined);
    await once.run("POST /a", (key) => Promise.resolve(keys.push(key)));
    expect(keys[2]).toBe(keys[0]);
    expect(keys[1]).not.toBe(keys[0]);
  });
});
