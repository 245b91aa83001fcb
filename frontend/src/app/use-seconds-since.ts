import { useEffect, useState } from "react";

/** Whole seconds since a browser time, ticking; null while there is none. */
export function useSecondsSince(since: number | null): number | null {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (since === null) return;
    const tick = (): void => setNow(Date.now());
    const first = setTimeout(tick, 0);
    const timer = setInterval(tick, 1000);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
    };
  }, [since]);
  return since === null ? null : Math.max(0, Math.floor((now - since) / 1000));
}
