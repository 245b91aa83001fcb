// How components read the live state. A component re-renders only when what it selected has changed.

import { createContext, useContext, useEffect, useState, useSyncExternalStore } from "react";
import type { DeploymentView, OperationView, PoolView, WorkerView } from "@/generated/contracts";
import { serverNow, type LiveState } from "./state";
import { LiveStore } from "./store";

export const LiveContext = createContext(new LiveStore());

/** `select` must give the same object for the same state: pick parts, don't build new ones. */
export function useLive<T>(select: (state: LiveState) => T): T {
  const store = useContext(LiveContext);
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

export const useDeployments = (): readonly DeploymentView[] => useLive((state) => state.deployments);
export const useNodes = (): LiveState["nodes"] => useLive((state) => state.nodes);
export const useOperations = (): LiveState["operations"] => useLive((state) => state.operations);
export const useModels = (): LiveState["models"] => useLive((state) => state.models);
export const useFrames = (): LiveState["frames"] => useLive((state) => state.frames);
export const useConnection = (): LiveState["connection"] => useLive((state) => state.connection);

/** Shows an operation that an answer told of, without waiting for its event. */
export function useNoteOperation(): (operation: OperationView) => void {
  const store = useContext(LiveContext);
  return (operation) => store.dispatch({ type: "asked", operation });
}

/** Whether the first snapshot has come; before it "nothing there" can't be told from "not known yet". */
export const useLoaded = (): boolean => useLive((state) => state.seq !== null);

export interface PlacedWorker {
  readonly worker: WorkerView;
  readonly pool: PoolView;
}

/** The worker `id` and its pool, wherever it runs. */
export function findWorker(deployments: readonly DeploymentView[], id: string): PlacedWorker | null {
  for (const pool of deployments.flatMap((deployment) => deployment.pools)) {
    const worker = pool.workers.find((one) => one.id === id);
    if (worker) return { worker, pool };
  }
  return null;
}

/** The server's time in milliseconds, ticking once per `everyMs`. */
export function useServerNow(everyMs = 1000): number {
  const store = useContext(LiveContext);
  const [now, setNow] = useState(() => serverNow(store.get(), Date.now()));
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow(store.get(), Date.now())), everyMs);
    return () => clearInterval(timer);
  }, [store, everyMs]);
  return now;
}
