import { useMutation } from "@tanstack/react-query";
import type { ModelView } from "@/generated/contracts";
import { call } from "@/lib/api";

export interface NewModel {
  readonly name: string;
  readonly path: string;
  readonly description: string;
  readonly revision: string;
  readonly licence: string;
}

export function useCreateModel() {
  return useMutation({ mutationFn: (input: NewModel) => call<ModelView>("POST", "/models", input) });
}
