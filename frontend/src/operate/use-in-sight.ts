import { useEffect, useRef, type RefObject } from "react";

/** For an element that appears when `cause` is something: brings it into sight then, once for each cause. */
export function useInSight(cause: unknown): RefObject<HTMLDivElement | null> {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (cause !== null) element.current?.scrollIntoView({ block: "center" });
  }, [cause]);
  return element;
}
