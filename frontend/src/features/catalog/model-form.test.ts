import { describe, expect, it } from "vitest";
import { modelView } from "@/testing/views";
import { faults, modelChanges, newModel, NOTHING_SAID, requestOf, valuesOf } from "./model-form";

const seen = valuesOf(modelView({ path: "org/small", licence: "mit" }));

describe("what people say of a model", () => {
  it("is sent with its config only where that was given", () => {
    const said = { ...NOTHING_SAID, path: "org/small" };
    expect(newModel(" small ", said)).toEqual({
      name: "small",
      path: "org/small",
      revision: "",
      licence: "",
      description: "",
    });
    expect(newModel("small", { ...said, config: '{"model_type": "llama"}' })).toMatchObject({
      config: { model_type: "llama" },
    });
  });

  it("is changed where it differs: a path that was not touched is not sent, since it may be shown in part", () => {
    expect(requestOf({ seen, wanted: { ...seen, licence: "apache-2.0" } })).toEqual({ licence: "apache-2.0" });
    expect(requestOf({ seen, wanted: { ...seen, forget: true } })).toEqual({ shape: null });
    expect(modelChanges({ seen, wanted: { ...seen, revision: "v2" } })).toEqual([
      { name: "Revision", before: "the hub's default", after: "v2" },
    ]);
  });

  it("can be wrong before anybody is asked", () => {
    expect(faults(seen)).toEqual({});
    expect(faults({ ...seen, path: " ", config: "[1" })).toHaveProperty("config");
    expect(faults({ ...seen, path: " " })).toHaveProperty("path");
  });
});
