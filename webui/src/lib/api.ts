// Calls to the master. Paths are relative to /api/v1. The browser sends the session cookie.

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
export type QueryValue = string | number | boolean | readonly (string | number)[] | undefined;
export type Query = Record<string, QueryValue>;

/** A call as data. A button sends it, and the commands to copy are made from it. */
export interface Call {
    method: Method;
    path: string;
    body?: unknown;
    /** The arguments of the `muster` command that does the same, if there is one. */
    muster?: readonly (string | number)[];
}

const BASE = "/api/v1";
const MAX_ATTEMPTS = 5;

const ADVICE: Record<number, string> = {
    0: "Check that the master is running and that this machine can reach it. Try again later.",
    401: "Sign in again.",
    403: "Ask an administrator of the workspace for a role that allows this.",
    404: "It may have been deleted. Look for it in the list.",
    409: "It has changed in the meantime. Reload the page and try again.",
    413: "Send less data at a time.",
    429: "The master is busy. Try again in a few seconds.",
    500: "The master's log has details. Administrators can read it under Admin.",
    503: "The master is starting or busy. Try again in a few seconds.",
};

export class ApiError extends Error {
    constructor(
        readonly status: number,
        readonly reason: string,
        message: string,
    ) {
        super(message);
    }

    /** Advice on the next step, for messages without one. */
    get advice(): string {
        if (this.reason === "FailedPrecondition") return ADVICE[409]!; // a 400 for a wrong state
        return ADVICE[this.status] ?? (this.status > 500 ? ADVICE[503]! : "");
    }
}

/** Called when the master answers 401. The session module sets it, to show the sign-in form. */
let signedOutHandler: () => void = () => undefined;

export function onSignedOut(handler: () => void): void {
    signedOutHandler = handler;
}

export function apiUrl(path: string, query: Query = {}): string {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        if (value === undefined) continue;
        for (const one of Array.isArray(value) ? value : [value]) params.append(name, String(one));
    }
    const text = params.toString();
    return BASE + path + (text ? `?${text}` : "");
}

async function readError(response: Response): Promise<ApiError> {
    let message = "";
    let reason = response.statusText;
    try {
        const body = (await response.json()) as {
            error?: { reason?: string; error?: string };
            message?: string;
        };
        message = body.error?.error ?? body.message ?? "";
        reason = body.error?.reason ?? reason;
    } catch {
        // The body is not an error of the master. The message then names the status.
    }
    return new ApiError(response.status, reason, message || `The master answered ${response.status}.`);
}

async function fetchOnce(method: Method, url: string, body: unknown, abort?: AbortSignal) {
    const init: RequestInit = { method, signal: abort ?? null, credentials: "same-origin" };
    if (body !== undefined) {
        init.body = JSON.stringify(body);
        init.headers = { "Content-Type": "application/json" };
    }
    try {
        return await fetch(url, init);
    } catch (error) {
        if (abort?.aborted) throw error;
        throw new ApiError(0, "no answer", "The master does not answer.");
    }
}

/** Seconds until the next attempt: the master's Retry-After, otherwise 0.5, 1, 2, 4. */
export function retryDelay(attempt: number, retryAfter: string | null): number {
    const requested = Number(retryAfter ?? "");
    return retryAfter && requested >= 0 ? Math.min(requested, 30) : 0.5 * 2 ** attempt;
}

export function sleep(seconds: number, abort?: AbortSignal): Promise<void> {
    return new Promise((done, failed) => {
        const timer = setTimeout(done, seconds * 1000);
        abort?.addEventListener("abort", () => {
            clearTimeout(timer);
            failed(abort.reason as Error);
        });
    });
}

const isTransient = (status: number) => status === 0 || status === 503 || status === 429;

/** Sends a call. A GET is repeated while the master is busy or unreachable. */
async function request(method: Method, url: string, body: unknown, abort?: AbortSignal) {
    for (let attempt = 0; ; attempt++) {
        let failure: ApiError;
        let wait: string | null = null;
        try {
            const response = await fetchOnce(method, url, body, abort);
            if (response.ok) return response;
            wait = response.headers.get("Retry-After");
            failure = await readError(response);
        } catch (error) {
            if (!(error instanceof ApiError)) throw error;
            failure = error;
        }
        if (failure.status === 401 && !url.startsWith(`${BASE}/auth/login`)) signedOutHandler();
        if (method !== "GET" || !isTransient(failure.status) || attempt + 1 === MAX_ATTEMPTS) throw failure;
        await sleep(retryDelay(attempt, wait), abort);
    }
}

export async function get<T>(path: string, query?: Query, abort?: AbortSignal): Promise<T> {
    const response = await request("GET", apiUrl(path, query), undefined, abort);
    return (await response.json()) as T;
}

export async function getText(path: string, abort?: AbortSignal): Promise<string> {
    return (await request("GET", apiUrl(path), undefined, abort)).text();
}

export async function send<T = unknown>(
    method: Method,
    path: string,
    body?: unknown,
    abort?: AbortSignal,
): Promise<T> {
    const response = await request(method, apiUrl(path), body, abort);
    const text = await response.text();
    return (text ? JSON.parse(text) : {}) as T;
}

export function performCall<T = unknown>(call: Call): Promise<T> {
    return send<T>(call.method, call.path, call.body);
}

/** Reads a stream of lines {"result": T}. `onItems` gets the items of each chunk that arrives. */
export async function streamLines<T>(
    path: string,
    query: Query,
    onItems: (items: T[]) => void,
    abort: AbortSignal,
): Promise<void> {
    const response = await request("GET", apiUrl(path, query), undefined, abort);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        const lines = (rest + (value ?? "")).split("\n");
        rest = done ? "" : lines.pop()!;
        const items: T[] = [];
        for (const line of lines) {
            if (!line.trim()) continue;
            const item = JSON.parse(line) as { result?: T; error?: { message: string } };
            if (item.error) throw new ApiError(500, "stream", item.error.message);
            if (item.result !== undefined) items.push(item.result);
        }
        if (items.length) onItems(items);
        if (done) return;
    }
}

/** Returns whether the caller itself aborted the call. */
export function isAbort(error: unknown): boolean {
    return error instanceof DOMException && error.name === "AbortError";
}
