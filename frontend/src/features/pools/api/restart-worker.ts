import { useMutation } from "@tanstack/react-query";
import type { WorkerView } from "@/generated/contracts";
import { call } from "@/lib/api";

export function useRestartWorker() {
  return useMutation({
    mutationFn: (id: string) => call<WorkerView>("POST", `/workers/${encodeURIComponent(id)}/restart`, {}),
  });
}
