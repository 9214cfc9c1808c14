// The rows of a table: a list that is loaded as a whole, or pages that are loaded while the user scrolls. Rows
// are accessed by index; a row that is not loaded yet is undefined.

import { batch, computed, effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { isAbort } from "./api";

export interface Rows<T> {
    readonly count: ReadonlySignal<number>;
    /** Increases whenever a row changes. */
    readonly version: ReadonlySignal<number>;
    readonly error: ReadonlySignal<unknown>;
    readonly busy: ReadonlySignal<boolean>;
    at(index: number): T | undefined;
    key(row: T): string;
    /** Reports the visible rows. They and some rows around them will be loaded. */
    setVisible(from: number, to: number): void;
    reload(): void;
    /** Sets the order of a list that is loaded as a whole. */
    setOrder?(compare: ((a: T, b: T) => number) | undefined): void;
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
        setVisible: () => undefined,
        reload: () => undefined,
        setOrder: (by) => (compare.value = by),
    };
}

// --- pages of the master -------------------------------------------------------------------------

export interface PageRequest {
    cursor?: string;
    offset: number;
    limit: number;
}

export interface PageResult<T> {
    rows: T[];
    total: number;
    /** There may be more rows than `total`. */
    isTotalMinimum?: boolean;
    next?: string | null | undefined;
}

export interface PagedOptions {
    size?: number;
    /** Reads the exact total when a page says that there may be more rows. */
    count?: (abort: AbortSignal) => Promise<number>;
}

interface Page<T> {
    rows: T[];
    next?: string | null | undefined;
    generation: number; // increases with each reload
}

const MAX_CONCURRENT = 2;

export class PagedRows<T> implements Rows<T> {
    readonly count = signal(0);
    readonly version = signal(0);
    readonly error = signal<unknown>(undefined);
    readonly busy = signal(true);
    /** There may be more rows than `count`. */
    readonly isCountMinimum = signal(false);
    private readonly size: number;
    private readonly countAll: PagedOptions["count"];
    private pages = new Map<number, Page<T>>();
    private indexByKey = new Map<string, number>();
    private loading = new Set<number>();
    private visible: [number, number] = [0, 0];
    private scrollsDown = true; // the direction in which the user scrolls
    private generation = 0;
    private hasFailed = false; // no further loads until reload()
    private abort = new AbortController();

    constructor(
        private readonly load: (page: PageRequest, abort: AbortSignal) => Promise<PageResult<T>>,
        readonly key: (row: T) => string,
        options: PagedOptions = {},
    ) {
        this.size = options.size ?? 200;
        this.countAll = options.count;
    }

    at(index: number): T | undefined {
        return this.pages.get(Math.floor(index / this.size))?.rows[index % this.size];
    }

    /** All loaded rows. */
    *loadedRows(): Iterable<T> {
        for (const page of this.pages.values()) yield* page.rows;
    }

    find(key: string): T | undefined {
        const place = this.indexByKey.get(key);
        return place === undefined ? undefined : this.at(place);
    }

    /** Whether the first row is visible. */
    isAtTop(): boolean {
        return this.visible[0] === 0;
    }

    setVisible(from: number, to: number): void {
        this.scrollsDown = from >= this.visible[0];
        this.visible = [from, to];
        this.loadMissing();
    }

    /** Loads all rows again. The old rows stay until the new ones arrive. */
    reload(): void {
        this.abort.abort();
        this.abort = new AbortController();
        this.loading.clear();
        this.generation++;
        this.hasFailed = false;
        this.busy.value = true;
        this.loadMissing();
    }

    stop(): void {
        this.abort.abort();
    }

    /** Changes a loaded row. False: the row is not loaded. */
    patch(key: string, change: Partial<T>): boolean {
        const place = this.indexByKey.get(key);
        const row = this.find(key);
        if (place === undefined || row === undefined || this.key(row) !== key) return false;
        const page = this.pages.get(Math.floor(place / this.size))!;
        page.rows[place % this.size] = { ...row, ...change };
        this.version.value++;
        return true;
    }

    private isMissing(page: number): boolean {
        const last = Math.max(0, Math.ceil(this.count.peek() / this.size) - 1);
        if (page < 0 || (page > last && !(page === last + 1 && this.isCountMinimum.peek()))) return false;
        return this.pages.get(page)?.generation !== this.generation && !this.loading.has(page);
    }

    // The visible pages come first, then those in the direction of scrolling.
    private nextMissing(): number | undefined {
        const from = Math.floor(this.visible[0] / this.size);
        const to = Math.floor(this.visible[1] / this.size);
        const ahead = this.scrollsDown ? [to + 1, to + 2, from - 1] : [from - 1, from - 2, to + 1];
        for (let page = from; page <= to; page++) if (this.isMissing(page)) return page;
        const isNext = (page: number) =>
            page < from || this.pages.get(page - 1)?.generation === this.generation;
        return ahead.find((page) => this.isMissing(page) && isNext(page));
    }

    private loadMissing(): void {
        // Only the first page is loaded until its answer says how many rows there are.
        const maxConcurrent = this.pages.get(0) || this.visible[0] ? MAX_CONCURRENT : 1;
        while (this.loading.size < maxConcurrent && !this.hasFailed) {
            const page = this.nextMissing();
            if (page === undefined) return;
            void this.fetch(page);
        }
    }

    private async fetch(page: number): Promise<void> {
        const { abort } = this;
        const before = this.pages.get(page - 1);
        const cursor = before?.generation === this.generation ? before.next : undefined;
        const offset = cursor ? 0 : page * this.size;
        this.loading.add(page);
        try {
            const request = { offset, limit: this.size, ...(cursor ? { cursor } : {}) };
            const result = await this.load(request, abort.signal);
            if (!abort.signal.aborted) this.storePage(page, result);
        } catch (error) {
            if (abort.signal.aborted || isAbort(error)) return;
            batch(() => {
                this.error.value = error;
                this.busy.value = false;
            });
            this.hasFailed = true;
            this.loading.delete(page);
            return;
        }
        if (abort.signal.aborted) return;
        this.loading.delete(page);
        this.loadMissing();
    }

    private storePage(page: number, result: PageResult<T>): void {
        const isFirst = [...this.pages.values()].every((one) => one.generation !== this.generation);
        if (isFirst) this.dropDistantPages(page);
        this.pages.set(page, { rows: result.rows, next: result.next, generation: this.generation });
        result.rows.forEach((row, i) => this.indexByKey.set(this.key(row), page * this.size + i));
        const seen = page * this.size + result.rows.length;
        const isOpen = Boolean(result.isTotalMinimum);
        batch(() => {
            this.count.value = isOpen
                ? Math.max(isFirst ? 0 : this.count.peek(), seen + (result.next ? 1 : 0))
                : Math.max(result.total, seen);
            this.isCountMinimum.value = isOpen;
            this.error.value = undefined;
            this.busy.value = false;
            this.version.value++;
        });
        if (isFirst && isOpen) void this.loadExactCount();
    }

    // Old pages near the new one stay until they are replaced, so the table does not flicker.
    private dropDistantPages(page: number): void {
        const near = (one: number) => Math.abs(one - page) <= 2;
        this.pages = new Map([...this.pages].filter(([one]) => near(one)));
        this.indexByKey.clear();
        for (const [one, { rows }] of this.pages)
            rows.forEach((row, i) => this.indexByKey.set(this.key(row), one * this.size + i));
    }

    private async loadExactCount(): Promise<void> {
        if (!this.countAll) return;
        const { abort } = this;
        try {
            const total = await this.countAll(abort.signal);
            if (abort.signal.aborted) return;
            batch(() => {
                this.count.value = Math.max(total, this.count.peek());
                this.isCountMinimum.value = false;
            });
        } catch {
            // The count stays a lower bound.
        }
    }
}

export function pagedRows<T>(
    load: (page: PageRequest, abort: AbortSignal) => Promise<PageResult<T>>,
    key: (row: T) => string,
    options?: PagedOptions,
): PagedRows<T> {
    return new PagedRows(load, key, options);
}

/** Reloads the rows whenever a signal that `dependencies` reads changes. */
export function reloadOn(rows: Pick<Rows<unknown>, "reload">, dependencies: () => unknown): () => void {
    let isFirst = true;
    return effect(() => {
        dependencies();
        if (!isFirst) untracked(() => rows.reload());
        isFirst = false;
    });
}

// --- sorting -------------------------------------------------------------------------------------

/** The new order, such as "-a,b", after a click on the column `key`. `add`: keeps the other keys. */
export function nextSort(sort: string, key: string, add: boolean): string {
    const keys = sort ? sort.split(",") : [];
    const index = keys.findIndex((one) => one.replace(/^-/, "") === key);
    const isDescending = index >= 0 && keys[index]!.startsWith("-");
    if (!add) return index < 0 || isDescending ? key : `-${key}`;
    const next = index < 0 ? key : isDescending ? "" : `-${key}`;
    if (index < 0) keys.push(next);
    else keys.splice(index, 1, ...(next ? [next] : []));
    return keys.join(",");
}

/** The direction in which `key` is sorted: 1 ascending, -1 descending, 0 not. */
export function sortDirection(sort: string, key: string): 1 | -1 | 0 {
    const keys = sort.split(",");
    return keys.includes(key) ? 1 : keys.includes(`-${key}`) ? -1 : 0;
}

/** Compares numbers by size, and words alphabetically with the numbers in them by size. Missing values come last. */
export function compareValues(a: unknown, b: unknown, direction: 1 | -1): number {
    const isEmpty = (value: unknown) =>
        value === undefined || value === null || value === "" || Number.isNaN(value);
    if (isEmpty(a) || isEmpty(b)) return Number(isEmpty(a)) - Number(isEmpty(b));
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    return direction * String(a).localeCompare(String(b), "en", { numeric: true });
}
