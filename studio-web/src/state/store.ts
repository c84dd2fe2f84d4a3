// A value that can be watched. Components take a part of it with `useStore`; they redraw only when that part changes.
import { useSyncExternalStore } from "react";

export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: T) {}

  readonly get = (): T => this.value;

  readonly set = (next: Partial<T> | ((now: T) => Partial<T>)): void => {
    const change = typeof next === "function" ? next(this.value) : next;
    this.value = { ...this.value, ...change };
    for (const listener of [...this.listeners]) listener();
  };

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

export const useStore = <T, Part>(store: Store<T>, part: (value: T) => Part): Part =>
  useSyncExternalStore(store.subscribe, () => part(store.get()));
