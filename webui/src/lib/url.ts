// The address of the page as signals: what a view shows stands in its query string, so that a link
// to it shows the same. Links are plain <a href>; clicks on them come here.

import { computed, type ReadonlySignal, signal } from "@preact/signals";

export interface Codec<T> {
    fallback: T;
    read(text: string): T;
    write(value: T): string;
}

/** A parameter of the query string; used like a signal. */
export interface Param<T> {
    value: T;
    peek(): T;
    /** Sets it as a new step of the history, where `value =` replaces the present one. */
    push(value: T): void;
}

export interface Place {
    path: string;
    query: URLSearchParams;
}

function readPlace(): Place {
    return { path: location.pathname, query: new URLSearchParams(location.search) };
}

const place = signal<Place>(
    typeof location === "undefined" ? { path: "/", query: new URLSearchParams() } : readPlace(),
);

export const here: ReadonlySignal<Place> = place;

/** A query string that a person can read: what needs no escape in it has none. */
export function queryText(query: URLSearchParams): string {
    return query
        .toString()
        .replace(/%2C/g, ",")
        .replace(/%3A/g, ":")
        .replace(/%2F/g, "/")
        .replace(/%28/g, "(")
        .replace(/%29/g, ")");
}

export function hrefOf(path: string, query: URLSearchParams): string {
    const text = queryText(query);
    return text ? `${path}?${text}` : path;
}

function moveTo(href: string, replace: boolean): void {
    if (replace) history.replaceState(history.state, "", href);
    else history.pushState(null, "", href);
    place.value = readPlace();
}

/** Goes to another view of the page. */
export function go(href: string, replace = false): void {
    const from = place.peek().path;
    moveTo(href, replace);
    if (place.peek().path !== from) scrollTo(0, 0);
}

/** Whether a click on a link is ours to follow: a plain one, to a view of this page. */
function isOurs(event: MouseEvent, anchor: HTMLAnchorElement): boolean {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    const url = new URL(anchor.href, location.href);
    return (
        plain &&
        !event.altKey &&
        !event.defaultPrevented &&
        !anchor.target &&
        !anchor.hasAttribute("download") &&
        url.origin === location.origin &&
        !url.pathname.startsWith("/api/")
    );
}

export function watchLinks(): void {
    addEventListener("popstate", () => (place.value = readPlace()));
    document.addEventListener("click", (event) => {
        const anchor = (event.target as Element).closest?.("a[href]");
        if (!(anchor instanceof HTMLAnchorElement) || !isOurs(event, anchor)) return;
        event.preventDefault();
        go(anchor.getAttribute("href")!);
    });
}

export function param<T>(name: string, codec: Codec<T>): Param<T> {
    const given = computed(() => place.value.query.get(name));
    const known = computed(() => (given.value === null ? codec.fallback : codec.read(given.value)));
    const put = (value: T, replace: boolean) => {
        const { path, query } = place.peek();
        const next = new URLSearchParams(query);
        const written = codec.write(value);
        if (written === codec.write(codec.fallback)) next.delete(name);
        else next.set(name, written);
        if (next.toString() !== query.toString()) moveTo(hrefOf(path, next), replace);
    };
    return {
        get value() {
            return known.value;
        },
        set value(value: T) {
            put(value, true);
        },
        peek: () => known.peek(),
        push: (value) => put(value, false),
    };
}

export function text(fallback = ""): Codec<string> {
    return { fallback, read: (given) => given, write: (value) => value };
}

export function number(fallback: number): Codec<number> {
    const read = (given: string) => (Number.isFinite(Number(given)) ? Number(given) : fallback);
    return { fallback, read, write: String };
}

export function flag(fallback = false): Codec<boolean> {
    return { fallback, read: (given) => given !== "0", write: (value) => (value ? "1" : "0") };
}

/** Words with commas between; a comma within a word is written as %2C. */
export function list(fallback: readonly string[] = []): Codec<readonly string[]> {
    return {
        fallback,
        read: (given) => (given ? given.split(",").map(decodeURIComponent) : []),
        write: (words) => words.map((word) => word.replace(/[%,]/g, encodeURIComponent)).join(","),
    };
}
