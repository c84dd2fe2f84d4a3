import { useEffect } from "react";
import { app } from "../state/app.ts";
import { useStore } from "../state/store.ts";

const TOAST_MS = 4200;

/** One line that goes by itself. While a dialog is open it stands inside it: what lies under a modal is dimmed and not read out. */
export function ToastLine() {
  const toast = useStore(app, (state) => state.toast);
  useEffect(() => {
    if (!toast) return undefined;
    const timer = setTimeout(() => app.set({ toast: null }), toast.tone === "bad" ? TOAST_MS * 2 : TOAST_MS);
    return () => clearTimeout(timer);
  }, [toast]);
  return <div className={`toast${toast ? ` toast-shown toast-${toast.tone}` : ""}`} role={toast?.tone === "bad" ? "alert" : "status"}>{toast?.text}</div>;
}
