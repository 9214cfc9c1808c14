// Data of a view from the master, as signals. It is loaded when the view appears, again when a signal that the
// load function reads changes, and again after matching events.

import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { isAbort } from "./api";
import { type EventFilter, useEvents } from "./events/subscribe";

export interface Load<T> {
    data: ReadonlySignal<T | undefined>;
    error: ReadonlySignal<unknown>;
    busy: ReadonlySignal<boolean>;
    reload(): void;
}

export interface LoadOptions {
    /** The minimum number of seconds between two loads that events cause. */
    minIntervalS?: number;
}

type LoadFunction<T> = (abort: AbortSignal) => Promise<T>;

class Loader<T> implements Load<T> {
    readonly data = signal<T | undefined>(undefined);
    readonly error = signal<unknown>(undefined);
    readonly busy = signal(true);
    load!: LoadFunction<T>;
    private readonly generation = signal(0);
    private timer: ReturnType<typeof setTimeout> | undefined;
    private loadedAt = 0;

    reload = (): void => {
        clearTimeout(this.timer);
        this.timer = undefined;
        this.generation.value++;
    };

    /** Reloads soon, but at least `every` seconds after the last load. */
    reloadSoon(every: number): void {
        if (this.timer) return;
        const due = this.loadedAt + every * 1000 - performance.now();
        this.timer = setTimeout(this.reload, Math.max(due, 30));
    }

    /** Loads, and reloads on changes, until the returned function is called. */
    start(): () => void {
        let abort = new AbortController();
        const end = effect(() => {
            void this.generation.value;
            abort.abort();
            abort = new AbortController();
            this.busy.value = true;
            void this.settle(this.load(abort.signal), abort.signal);
        });
        return () => {
            end();
            clearTimeout(this.timer);
            abort.abort();
        };
    }

    private async settle(answer: Promise<T>, abort: AbortSignal): Promise<void> {
        try {
            const data = await answer;
            if (abort.aborted) return;
            this.data.value = data;
            this.error.value = undefined;
        } catch (error) {
            if (abort.aborted || isAbort(error)) return;
            this.error.value = error;
        }
        this.loadedAt = performance.now();
        this.busy.value = false;
    }
}

export function useLoad<T>(load: LoadFunction<T>, events?: EventFilter & LoadOptions): Load<T> {
    const loader = useMemo(() => new Loader<T>(), []);
    const latest = useRef(load);
    latest.current = load;
    loader.load = (abort) => latest.current(abort);
    useLayoutEffect(() => loader.start(), []); // the call starts before the frame is painted
    const { minIntervalS = 1, ...filter } = events ?? { topics: [] };
    useEvents(events && filter, () => loader.reloadSoon(minIntervalS), loader.reload);
    return loader;
}
