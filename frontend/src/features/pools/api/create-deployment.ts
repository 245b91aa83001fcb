import { useMutation } from "@tanstack/react-query";
import type { DeploymentView, EngineSettings, OperationView } from "@/generated/contracts";
import { call } from "@/lib/api";
import { useNoteOperation } from "@/live/hooks";

export interface NewDeployment {
  readonly name: string;
  readonly model: string;
  readonly prefill: number;
  readonly decode: number;
  /** Workers that do both; asked for alone, without the two pools. */
  readonly unified: number;
  readonly local_prefill_tokens: number;
  readonly settings: EngineSettings;
}

export interface Deployed {
  readonly deployment: DeploymentView;
  readonly operation: OperationView;
}

export function useCreateDeployment() {
  const note = useNoteOperation();
  return useMutation({
    mutationFn: (input: NewDeployment) => call<Deployed>("POST", "/deployments", input),
    onSuccess: ({ operation }) => note(operation),
  });
}
