import { useEffect, useState } from "react";

/** Seconds left, ticking down from what was last reported, never below zero; null stays null. */
export function useCountdown(reported: number | null): number | null {
  const [tick, setTick] = useState({ reported, left: reported });
  useEffect(() => {
    if (reported === null) return;
    const end = performance.now() + reported * 1000;
    const timer = setInterval(() => setTick({ reported, left: Math.max(0, (end - performance.now()) / 1000) }), 1000);
    return () => clearInterval(timer);
  }, [reported]);
  return tick.reported === reported ? tick.left : reported;
}
