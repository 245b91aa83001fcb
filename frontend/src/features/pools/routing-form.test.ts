import { expect, test } from "vitest";
import { DEFAULT_ROUTING_POLICY } from "@/generated/contracts";
import { routingChanges, routingOf, routingValues } from "./routing-form";

test("what is entered is what was shown, and an empty field is the router's own limit", () => {
  const policy = { ...DEFAULT_ROUTING_POLICY, local_prefill_auto: true, handoff_failure: "fail", idle_s: 12 } as const;
  expect(routingOf(routingValues(policy))).toEqual(policy);
  expect(routingValues(policy).total_s).toBe("");
  expect(routingOf(routingValues(DEFAULT_ROUTING_POLICY))).toEqual(DEFAULT_ROUTING_POLICY);
});

test("changes are told in words", () => {
  const before = routingValues(DEFAULT_ROUTING_POLICY);
  const after = { ...before, handoff_failure: "recompute_on_decode", connect_s: 1, first_token_s: 30 };
  expect(routingChanges(before, after)).toEqual([
    {
      name: "When a hand-off fails",
      before: "Another prefill worker reads it",
      after: "The decode worker reads it",
    },
    { name: "Connection within", before: "the router's limit", after: "1\u00a0s" },
    { name: "First token within", before: "the router's limit", after: "30\u00a0s" },
  ]);
  expect(routingChanges(before, before)).toEqual([]);
});
