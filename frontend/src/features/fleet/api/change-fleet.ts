import { useMutation } from "@tanstack/react-query";
import type { DeviceView, NodeView } from "@/generated/contracts";
import { call } from "@/lib/api";

/** What has changed comes back by its event, too: nothing is put into the live state here. */
export function useLabelNode() {
  return useMutation({
    mutationFn: ({ id, labels }: { readonly id: string; readonly labels: readonly string[] }) =>
      call<NodeView>("PATCH", `/nodes/${encodeURIComponent(id)}`, { labels }),
  });
}

export interface DeviceChange {
  readonly labels: readonly string[];
  readonly maintenance: boolean;
  readonly maintenance_note: string;
  readonly reserved_for: string;
}

export function useChangeDevice() {
  return useMutation({
    mutationFn: ({ id, ...change }: DeviceChange & { readonly id: number }) =>
      call<DeviceView>("PATCH", `/devices/${id}`, change),
  });
}

/** Only one that its node does not report any more, and that no worker holds. */
export function useForgetDevice() {
  return useMutation({ mutationFn: (id: number) => call<undefined>("DELETE", `/devices/${id}`) });
}
