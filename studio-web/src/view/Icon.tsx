// A few line icons, drawn here so that the page loads nothing.
const PATHS: Record<string, string> = {
  undo: "M4 8h8a4 4 0 0 1 0 8H8 M4 8l3.5-3.5 M4 8l3.5 3.5",
  redo: "M16 8H8a4 4 0 0 0 0 8h4 M16 8l-3.5-3.5 M16 8l-3.5 3.5",
  add: "M10 4v12 M4 10h12",
  play: "M6.5 4.5v11l9-5.5z",
  pause: "M7 4.5v11 M13 4.5v11",
  previous: "M12.5 5l-5 5 5 5",
  next: "M7.5 5l5 5-5 5",
  unpin: "M5 5l10 10 M15 5L5 15",
  moon: "M15.5 12.2A6.5 6.5 0 0 1 7.8 4.5a6.5 6.5 0 1 0 7.7 7.7z",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z M10 2v1.6 M10 16.4V18 M2 10h1.6 M16.4 10H18 M4.3 4.3l1.2 1.2 M14.5 14.5l1.2 1.2 M4.3 15.7l1.2-1.2 M14.5 5.5l1.2-1.2",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8 M10 14.4v.2",
  gallery: "M3.5 4.5h5v5h-5z M11.5 4.5h5v5h-5z M3.5 12h5v4h-5z M11.5 12h5v4h-5z",
  file: "M5 3.5h6.5L15 7v9.5H5z M11.5 3.5V7H15",
  close: "M5 5l10 10 M15 5L5 15",
  gradient: "M4 15c4 0 4-10 8-10 M12 5l-2.8-.6 M12 5l-1 2.8 M13 15h3",
  trash: "M4.5 6h11 M8 6V4.5h4V6 M6 6l.6 10h6.8L14 6",
  copy: "M7 7h9v9H7z M4 13V4h9",
  side: "M3.5 4.5h13v11h-13z M12 4.5v11",
  down: "M6 8l4 4 4-4",
};

export function Icon({ name }: { name: string }) {
  return <svg className="line-icon" width="20" height="20" viewBox="0 0 20 20" aria-hidden="true"><path d={PATHS[name]} /></svg>;
}
