// The address of the page as signals. The query string holds the state of a view, so a link shows the same view.
// Links are plain <a href> elements; this module handles their clicks.

import { computed, type ReadonlySignal, signal } from "@preact/signals";

export interface Codec<T> {
    fallback: T;
    read(text: string): T;
    write(value: T): string;
}

/** A parameter of the query string, used like a signal. */
export interface Param<T> {
    value: T;
    peek(): T;
    /** Sets the value as a new entry of the history. `value =` replaces the current entry. */
    push(value: T): void;
}

export interface Address {
    path: string;
    query: URLSearchParams;
}

function readAddress(): Address {
    return { path: location.pathname, query: new URLSearchParams(location.search) };
}

const address = signal<Address>(
    typeof location === "undefined" ? { path: "/", query: new URLSearchParams() } : readAddress(),
);

export const currentAddress: ReadonlySignal<Address> = address;

/** A readable query string, with only the necessary escapes. */
export function queryText(query: URLSearchParams): string {
    return query
        .toString()
        .replace(/%2C/g, ",")
        .replace(/%3A/g, ":")
        .replace(/%2F/g, "/")
        .replace(/%28/g, "(")
        .replace(/%29/g, ")");
}

export function buildHref(path: string, query: URLSearchParams): string {
    const text = queryText(query);
    return text ? `${path}?${text}` : path;
}

function setAddress(href: string, replace: boolean): void {
    if (replace) history.replaceState(history.state, "", href);
    else history.pushState(null, "", href);
    address.value = readAddress();
}

/** Navigates to another view. */
export function navigate(href: string, replace = false): void {
    const from = address.peek().path;
    setAddress(href, replace);
    if (address.peek().path !== from) scrollTo(0, 0);
}

/** Returns whether the page handles the click itself: a plain click on a link to one of its views. */
function isInternalLink(event: MouseEvent, anchor: HTMLAnchorElement): boolean {
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
    addEventListener("popstate", () => (address.value = readAddress()));
    document.addEventListener("click", (event) => {
        const anchor = (event.target as Element).closest?.("a[href]");
        if (!(anchor instanceof HTMLAnchorElement) || !isInternalLink(event, anchor)) return;
        event.preventDefault();
        navigate(anchor.getAttribute("href")!);
    });
}

export function queryParam<T>(name: string, codec: Codec<T>): Param<T> {
    const raw = computed(() => address.value.query.get(name));
    const parsed = computed(() => (raw.value === null ? codec.fallback : codec.read(raw.value)));
    const write = (value: T, replace: boolean) => {
        const { path, query } = address.peek();
        const next = new URLSearchParams(query);
        const written = codec.write(value);
        if (written === codec.write(codec.fallback)) next.delete(name);
        else next.set(name, written);
        if (next.toString() !== query.toString()) setAddress(buildHref(path, next), replace);
    };
    return {
        get value() {
            return parsed.value;
        },
        set value(value: T) {
            write(value, true);
        },
        peek: () => parsed.peek(),
        push: (value) => write(value, false),
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

/** Words separated by commas. A comma within a word is written as %2C. */
export function list(fallback: readonly string[] = []): Codec<readonly string[]> {
    return {
        fallback,
        read: (given) => (given ? given.split(",").map(decodeURIComponent) : []),
        write: (words) => words.map((word) => word.replace(/[%,]/g, encodeURIComponent)).join(","),
    };
}
