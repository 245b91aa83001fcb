import { expect, test } from "vitest";
import { DEFAULT_ROUTING_POLICY } from "@/generated/contracts";
import { routingChanges, routingOf, routingValues } from "./routing-form";

test("what is entered is what was shown, and an empty field is the router's own limit", () => {
  const policy = { ...DEFAULT_ROUTING_POLICY, local_prefill_auto: true, handoff_failure: "fail", idle_s: 12 } as const;
  expect(routingOf(routingValues(policy))).toEqual(policy);
  expect(routingValues(policy).total_s).toBe("");
});

test("changes are told in words", () => {
  const before = routingValues(DEFAULT_ROUTING_POLICY);
  const after = { ...before, handoff_failure: "recompute_on_decode", first_token_s: 30 };
  expect(routingChanges(before, after)).toEqual([
    {
      name: "When a hand-off fails",
      before: "Another prefill worker reads the prompt",
      after: "The decode worker reads the prompt",
    },
    { name: "First token within", before: "the router's limit", after: "30 s" },
  ]);
  expect(routingChanges(before, before)).toEqual([]);
});
