import { useEffect, useRef } from "react";
import type { DeploymentView } from "@/generated/contracts";

/** Brings the deployment or pool that the address names into sight, once it is there. */
export function useShown(deployments: readonly DeploymentView[], params: URLSearchParams): void {
  const shown = useRef<string | null>(null);
  const pool = params.get("pool");
  const name =
    params.get("deployment") ?? deployments.find((one) => one.pools.some((each) => each.id === pool))?.name ?? null;
  useEffect(() => {
    const element = name === null ? null : document.getElementById(name);
    if (element === null || shown.current === name) return;
    shown.current = name;
    element.scrollIntoView({ block: "start" });
  }, [name, deployments.length]);
}
