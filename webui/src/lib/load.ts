// What a view needs from the master, as signals: loaded when it appears, again when a signal that
// the question was made from changes, and again when the cluster tells that it has changed.

import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { isAbort } from "./api";
import { type Interest, useLive } from "./live";

export interface Load<T> {
    data: ReadonlySignal<T | undefined>;
    error: ReadonlySignal<unknown>;
    busy: ReadonlySignal<boolean>;
    reload(): void;
}

export interface LoadOptions {
    /** Seconds between two loads that events ask for, at least. */
    every?: number;
}

type Question<T> = (abort: AbortSignal) => Promise<T>;

class Loader<T> implements Load<T> {
    readonly data = signal<T | undefined>(undefined);
    readonly error = signal<unknown>(undefined);
    readonly busy = signal(true);
    question!: Question<T>;
    private readonly round = signal(0);
    private timer: ReturnType<typeof setTimeout> | undefined;
    private loadedAt = 0;

    reload = (): void => {
        clearTimeout(this.timer);
        this.timer = undefined;
        this.round.value++;
    };

    /** Reloads soon, but not more often than every so many seconds. */
    soon(every: number): void {
        if (this.timer) return;
        const due = this.loadedAt + every * 1000 - performance.now();
        this.timer = setTimeout(this.reload, Math.max(due, 30));
    }

    /** Loads until the function that it returns is called. */
    start(): () => void {
        let abort = new AbortController();
        const end = effect(() => {
            void this.round.value;
            abort.abort();
            abort = new AbortController();
            this.busy.value = true;
            void this.settle(this.question(abort.signal), abort.signal);
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

export function useLoad<T>(question: Question<T>, interest?: Interest & LoadOptions): Load<T> {
    const loader = useMemo(() => new Loader<T>(), []);
    const newest = useRef(question);
    newest.current = question;
    loader.question = (abort) => newest.current(abort);
    useLayoutEffect(() => loader.start(), []); // asked before the frame is drawn, not after it
    const { every = 1, ...wanted } = interest ?? { topics: [] };
    useLive(interest && wanted, () => loader.soon(every), loader.reload);
    return loader;
}
