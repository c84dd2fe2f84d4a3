import { useEffect, useState } from "react";

/** Below this the canvas and the inspector no longer fit side by side at all: the page is read step by step. */
export const NARROW = "(max-width: 720px)";
/** Below this the canvas has the whole width, and the inspector opens beside it only for what is chosen. */
export const TABLET = "(min-width: 721px) and (max-width: 1100px)";

export function useMedia(text: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(text).matches);
  useEffect(() => {
    const query = matchMedia(text);
    const change = (): void => setMatches(query.matches);
    change();
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, [text]);
  return matches;
}
