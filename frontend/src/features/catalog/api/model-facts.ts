import { useQuery } from "@tanstack/react-query";
import type { ModelFitView, WeightsView } from "@/generated/contracts";
import { call, callAll, withQuery } from "@/lib/api";

export interface Load {
  readonly kv_tokens: number;
  readonly tensor_parallel: number;
  readonly dtype: string;
}

const pathOf = (model: string): string => `/models/${encodeURIComponent(model)}`;

/** On which types of device of the fleet the model fits, run like that. */
export function useFit(model: string, load: Load) {
  return useQuery({
    queryKey: ["fit", model, load],
    queryFn: () => call<ModelFitView>("GET", withQuery(`${pathOf(model)}/fit`, { ...load })),
    placeholderData: (before) => before,
  });
}

/** On which nodes the weights are. fetching: whether some are on their way; then it is asked again and again. */
export function useWeights(model: string, fetching: boolean) {
  return useQuery({
    queryKey: ["weights", model, fetching],
    queryFn: () => callAll<WeightsView>(`${pathOf(model)}/weights`),
    refetchInterval: fetching ? 2000 : 20_000,
    placeholderData: (before) => before,
  });
}
