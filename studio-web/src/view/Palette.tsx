// Adding a block by typing. Opened by `/`, by a double-click, or by a wire dropped on the empty canvas (then only what fits is listed).
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { offers } from "../model/wiring.ts";
import { addFromPalette, app, type PaletteRequest } from "../state/app.ts";
import { useStore } from "../state/store.ts";

export function Palette({ request }: { request: PaletteRequest }) {
  const catalogue = useStore(app, (state) => state.catalogue);
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useMemo(() => offers(catalogue, query, request.loose), [catalogue, query, request.loose]);
  const chosen = list[Math.min(at, list.length - 1)];
  const frame = useRef<HTMLDivElement>(null);
  const before = useRef(document.activeElement as HTMLElement | null);
  const close = (): void => {
    app.set({ palette: null });
    before.current?.focus?.();
  };

  useEffect(() => {
    const outside = (event: PointerEvent): void => { if (!frame.current?.contains(event.target as Node)) app.set({ palette: null }); };
    addEventListener("pointerdown", outside, true);
    return () => removeEventListener("pointerdown", outside, true);
  }, []);
  useEffect(() => {
    frame.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [at, list]);

  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt((now) => Math.min(list.length - 1, now + 1));
    else if (event.key === "ArrowUp") setAt((now) => Math.max(0, now - 1));
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && chosen) addFromPalette(chosen.type.name, chosen.pin, request);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const left = Math.max(8, Math.min(request.screen.x, innerWidth - 388));
  const top = Math.max(8, Math.min(request.screen.y, innerHeight - 420));
  return (
    <div className="palette" ref={frame} style={{ left, top }} role="dialog" aria-label="Add a block">
      <input autoFocus value={query} placeholder={request.loose ? `Add what fits ${request.loose.end[1]}…` : "Add a block…"} aria-label="Name of the block"
        role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={chosen ? `offer-${chosen.type.name}` : undefined} aria-autocomplete="list"
        onChange={(event) => { setQuery(event.target.value); setAt(0); }} onKeyDown={onKey} spellCheck={false} autoComplete="off" />
      <ul id="palette-list" role="listbox" aria-label="Blocks">
        {list.map((offer, n) => (
          <li key={offer.type.name} id={`offer-${offer.type.name}`} role="option" aria-selected={offer === chosen}
            onPointerMove={() => setAt(n)} onClick={() => addFromPalette(offer.type.name, offer.pin, request)}>
            <span className="offer-name">{offer.type.name}</span>
            <span className="offer-group">{offer.pin ? `→ ${offer.pin}` : offer.type.group}</span>
            <span className="offer-summary">{offer.type.summary}</span>
          </li>
        ))}
      </ul>
      {list.length === 0 && <p className="palette-none">Nothing {request.loose ? "that fits " : ""}is called “{query}”</p>}
    </div>
  );
}
