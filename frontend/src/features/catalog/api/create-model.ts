import { useMutation } from "@tanstack/react-query";
import type { ModelView } from "@/generated/contracts";
import { call } from "@/lib/api";

/** Takes the body of `newModel`. */
export function useCreateModel() {
  return useMutation({
    mutationFn: (input: Readonly<Record<string, unknown>>) => call<ModelView>("POST", "/models", input),
  });
}
