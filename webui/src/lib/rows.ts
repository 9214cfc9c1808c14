// Where a table has its rows from: a list that is there, or pages of the master that are asked for
// as one scrolls. Rows are found by number; a row that is not there yet is undefined, and its place
// is kept.

import { batch, computed, effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { isAbort } from "./api";

export interface Rows<T> {
    readonly count: ReadonlySignal<number>;
    /** Grows whenever a row has changed. */
    readonly version: ReadonlySignal<number>;
    readonly error: ReadonlySignal<unknown>;
    readonly busy: ReadonlySignal<boolean>;
    at(index: number): T | undefined;
    key(row: T): string;
    /** These are on the screen; they and some around them will be there. */
    want(from: number, to: number): void;
    reload(): void;
    /** Only of lists: the order, which the page makes itself. */
    arrange?(compare: ((a: T, b: T) => number) | undefined): void;
}

// --- a list --------------------------------------------------------------------------------------

export function listRows<T>(
    list: ReadonlySignal<readonly T[] | undefined>,
    key: (row: T) => string,
): Rows<T> {
    const compare = signal<((a: T, b: T) => number) | undefined>(undefined);
    const sorted = computed(() => {
        const rows = list.value ?? [];
        return compare.value ? [...rows].sort(compare.value) : rows;
    });
    let changes = 0;
    return {
        count: computed(() => sorted.value.length),
        version: computed(() => (void sorted.value, ++changes)),
        error: signal(undefined),
        busy: computed(() => list.value === undefined),
        at: (index) => sorted.peek()[index],
        key,
        want: () => undefined,
        reload: () => undefined,
        arrange: (by) => (compare.value = by),
    };
}

// --- pages of the master -------------------------------------------------------------------------

export interface PageWanted {
    cursor?: string;
    offset: number;
    limit: number;
}

export interface PageGiven<T> {
    rows: T[];
    total: number;
    /** There may be more than `total`. */
    least?: boolean;
    next?: string | null | undefined;
}

export interface PagedOptions {
    size?: number;
    /** The exact total, when a page says that there may be more. */
    count?: (abort: AbortSignal) => Promise<number>;
}

interface Page<T> {
    rows: T[];
    next?: string | null | undefined;
    round: number; // of loading everything anew
}

const AT_ONCE = 2;

export class PagedRows<T> implements Rows<T> {
    readonly count = signal(0);
    readonly version = signal(0);
    readonly error = signal<unknown>(undefined);
    readonly busy = signal(true);
    /** There may be more rows than `count`. */
    readonly least = signal(false);
    private readonly size: number;
    private readonly countAll: PagedOptions["count"];
    private pages = new Map<number, Page<T>>();
    private places = new Map<string, number>();
    private loading = new Set<number>();
    private wanted: [number, number] = [0, 0];
    private isDown = true; // the way one scrolls
    private round = 0;
    private isRefused = false; // until the next question
    private abort = new AbortController();

    constructor(
        private readonly load: (page: PageWanted, abort: AbortSignal) => Promise<PageGiven<T>>,
        readonly key: (row: T) => string,
        options: PagedOptions = {},
    ) {
        this.size = options.size ?? 200;
        this.countAll = options.count;
    }

    at(index: number): T | undefined {
        return this.pages.get(Math.floor(index / this.size))?.rows[index % this.size];
    }

    /** Every row that is here, for what looks at what one has seen. */
    *known(): Iterable<T> {
        for (const page of this.pages.values()) yield* page.rows;
    }

    find(key: string): T | undefined {
        const place = this.places.get(key);
        return place === undefined ? undefined : this.at(place);
    }

    /** Whether the first rows are the ones on the screen. */
    isAtTop(): boolean {
        return this.wanted[0] === 0;
    }

    want(from: number, to: number): void {
        this.isDown = from >= this.wanted[0];
        this.wanted = [from, to];
        this.more();
    }

    /** Another question: what is there is shown until its answer comes. */
    reload(): void {
        this.abort.abort();
        this.abort = new AbortController();
        this.loading.clear();
        this.round++;
        this.isRefused = false;
        this.busy.value = true;
        this.more();
    }

    stop(): void {
        this.abort.abort();
    }

    /** Changes a row that is here. */
    patch(key: string, change: Partial<T>): boolean {
        const place = this.places.get(key);
        const row = this.find(key);
        if (place === undefined || row === undefined || this.key(row) !== key) return false;
        const page = this.pages.get(Math.floor(place / this.size))!;
        page.rows[place % this.size] = { ...row, ...change };
        this.version.value++;
        return true;
    }

    private isMissing(page: number): boolean {
        const last = Math.max(0, Math.ceil(this.count.peek() / this.size) - 1);
        if (page < 0 || (page > last && !(page === last + 1 && this.least.peek()))) return false;
        return this.pages.get(page)?.round !== this.round && !this.loading.has(page);
    }

    // What is seen first, then what will be seen next.
    private nextMissing(): number | undefined {
        const from = Math.floor(this.wanted[0] / this.size);
        const to = Math.floor(this.wanted[1] / this.size);
        const ahead = this.isDown ? [to + 1, to + 2, from - 1] : [from - 1, from - 2, to + 1];
        for (let page = from; page <= to; page++) if (this.isMissing(page)) return page;
        const isNext = (page: number) =>
            page < from || this.pages.get(page - 1)?.round === this.round;
        return ahead.find((page) => this.isMissing(page) && isNext(page));
    }

    private more(): void {
        // The first answer tells how many there are; before it there is nothing else to ask.
        const most = this.pages.get(0) || this.wanted[0] ? AT_ONCE : 1;
        while (this.loading.size < most && !this.isRefused) {
            const page = this.nextMissing();
            if (page === undefined) return;
            void this.fetch(page);
        }
    }

    private async fetch(page: number): Promise<void> {
        const { abort } = this;
        const before = this.pages.get(page - 1);
        const cursor = before?.round === this.round ? before.next : undefined;
        const offset = cursor ? 0 : page * this.size;
        this.loading.add(page);
        try {
            const wanted = { offset, limit: this.size, ...(cursor ? { cursor } : {}) };
            const given = await this.load(wanted, abort.signal);
            if (!abort.signal.aborted) this.take(page, given);
        } catch (error) {
            if (abort.signal.aborted || isAbort(error)) return;
            batch(() => {
                this.error.value = error;
                this.busy.value = false;
            });
            this.isRefused = true;
            this.loading.delete(page);
            return;
        }
        if (abort.signal.aborted) return;
        this.loading.delete(page);
        this.more();
    }

    private take(page: number, given: PageGiven<T>): void {
        const first = [...this.pages.values()].every((one) => one.round !== this.round);
        if (first) this.forgetOld(page);
        this.pages.set(page, { rows: given.rows, next: given.next, round: this.round });
        given.rows.forEach((row, i) => this.places.set(this.key(row), page * this.size + i));
        const seen = page * this.size + given.rows.length;
        const isOpen = Boolean(given.least);
        batch(() => {
            this.count.value = isOpen
                ? Math.max(first ? 0 : this.count.peek(), seen + (given.next ? 1 : 0))
                : Math.max(given.total, seen);
            this.least.value = isOpen;
            this.error.value = undefined;
            this.busy.value = false;
            this.version.value++;
        });
        if (first && isOpen) void this.askCount();
    }

    // Pages of the round before stay where the new ones are to come, so that nothing blinks.
    private forgetOld(page: number): void {
        const near = (one: number) => Math.abs(one - page) <= 2;
        this.pages = new Map([...this.pages].filter(([one]) => near(one)));
        this.places.clear();
        for (const [one, { rows }] of this.pages)
            rows.forEach((row, i) => this.places.set(this.key(row), one * this.size + i));
    }

    private async askCount(): Promise<void> {
        if (!this.countAll) return;
        const { abort } = this;
        try {
            const total = await this.countAll(abort.signal);
            if (abort.signal.aborted) return;
            batch(() => {
                this.count.value = Math.max(total, this.count.peek());
                this.least.value = false;
            });
        } catch {
            // It stays "at least".
        }
    }
}

export function pagedRows<T>(
    load: (page: PageWanted, abort: AbortSignal) => Promise<PageGiven<T>>,
    key: (row: T) => string,
    options?: PagedOptions,
): PagedRows<T> {
    return new PagedRows(load, key, options);
}

/** Runs again, and reloads the rows, whenever a signal that `question` reads changes. */
export function reloadOn(rows: Pick<Rows<unknown>, "reload">, question: () => unknown): () => void {
    let isFirst = true;
    return effect(() => {
        question();
        if (!isFirst) untracked(() => rows.reload());
        isFirst = false;
    });
}

// --- orders --------------------------------------------------------------------------------------

/** "-a,b" after a click on the head of `key`: up, down, none; `add`: besides the keys before. */
export function nextSort(sort: string, key: string, add: boolean): string {
    const keys = sort ? sort.split(",") : [];
    const place = keys.findIndex((one) => one.replace(/^-/, "") === key);
    const isDown = place >= 0 && keys[place]!.startsWith("-");
    if (!add) return place < 0 || isDown ? key : `-${key}`;
    const next = place < 0 ? key : isDown ? "" : `-${key}`;
    if (place < 0) keys.push(next);
    else keys.splice(place, 1, ...(next ? [next] : []));
    return keys.join(",");
}

/** Whether a list is sorted by `key`: 1 up, -1 down, 0 not. */
export function sortOf(sort: string, key: string): 1 | -1 | 0 {
    const keys = sort.split(",");
    return keys.includes(key) ? 1 : keys.includes(`-${key}`) ? -1 : 0;
}

/** Numbers by size, words by letter with numbers in them by size, and what has no value last. */
export function compareValues(a: unknown, b: unknown, way: 1 | -1): number {
    const none = (value: unknown) =>
        value === undefined || value === null || value === "" || Number.isNaN(value);
    if (none(a) || none(b)) return Number(none(a)) - Number(none(b));
    if (typeof a === "number" && typeof b === "number") return way * (a - b);
    return way * String(a).localeCompare(String(b), "en", { numeric: true });
}
