import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { PriorityClass } from "@/generated/contracts";
import { call } from "@/lib/api";
import type { Credential } from "./credentials";

/** What a key may do; the same when it is made and when it is changed. */
export interface KeyRights {
  readonly name: string;
  /** Names it may call; none means all. */
  readonly models: readonly string[];
  readonly priority_class: PriorityClass;
  /** Per router; null is no limit. */
  readonly requests_per_minute: number | null;
  /** Of prompts and answers. */
  readonly tokens_per_minute: number | null;
  readonly max_concurrent: number | null;
}

export type ServingKey = Credential & KeyRights;

/** key: the secret, in the answer that made it. */
type WrittenKey = ServingKey & { readonly key?: string };

/** A new key, or the same one with other rights (`id`). The answer to the former has the key in it, once. */
export function useWriteKey() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, days, ...rights }: KeyRights & { readonly id: string | null; readonly days: number | null }) =>
      id === null
        ? call<WrittenKey>("POST", "/keys", { ...rights, ...(days === null ? {} : { expires_in_days: days }) })
        : call<WrittenKey>("PATCH", `/keys/${encodeURIComponent(id)}`, rights),
    onSuccess: () => client.invalidateQueries({ queryKey: ["keys"] }),
  });
}
