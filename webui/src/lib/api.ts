// Calls of the master. A path is below /api/v1; the session's cookie goes along by itself.

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
export type QueryValue = string | number | boolean | readonly (string | number)[] | undefined;
export type Query = Record<string, QueryValue>;

/** A call as data: what a button sends, and what the commands to copy are made from. */
export interface Call {
    method: Method;
    path: string;
    body?: unknown;
    /** The words behind `muster`, when the command line can do the same. */
    muster?: readonly (string | number)[];
}

const BASE = "/api/v1";
const TRIES = 5;

const ADVICE: Record<number, string> = {
    0: "Is the master running, and can this machine reach it? Try again when it answers.",
    401: "Sign in again.",
    403: "Ask an administrator of the workspace for a role that may do this.",
    404: "It may have been deleted. Go back to the list, and look for it there.",
    409: "It has changed meanwhile. Look at it again, then decide.",
    413: "Send less at a time.",
    429: "The master has much to do. Wait a few seconds and try again.",
    500: "The master's log says more; its administrator can read it under Admin.",
    503: "The master is starting or has much to do. Try again in a few seconds.",
};

export class ApiError extends Error {
    constructor(
        readonly status: number,
        readonly reason: string,
        message: string,
    ) {
        super(message);
    }

    /** What to do next, for where the message does not say. */
    get advice(): string {
        return ADVICE[this.status] ?? (this.status > 500 ? ADVICE[503]! : "");
    }
}

/** Told by whoever shows the sign-in form; called when the master knows the caller no more. */
let onSignedOut: () => void = () => undefined;

export function whenSignedOut(then: () => void): void {
    onSignedOut = then;
}

export function link(path: string, query: Query = {}): string {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        if (value === undefined) continue;
        for (const one of Array.isArray(value) ? value : [value]) words.append(name, String(one));
    }
    const text = words.toString();
    return BASE + path + (text ? `?${text}` : "");
}

async function readError(answer: Response): Promise<ApiError> {
    let said = "";
    let reason = answer.statusText;
    try {
        const body = (await answer.json()) as {
            error?: { reason?: string; error?: string };
            message?: string;
        };
        said = body.error?.error ?? body.message ?? "";
        reason = body.error?.reason ?? reason;
    } catch {
        // Not the master's own words; the status says enough.
    }
    return new ApiError(answer.status, reason, said || `The master answered ${answer.status}.`);
}

async function once(method: Method, url: string, body: unknown, abort?: AbortSignal) {
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

/** Seconds to wait before the next try: what the master asks for, else 0.5, 1, 2, 4. */
export function pause(tried: number, retryAfter: string | null): number {
    const asked = Number(retryAfter ?? "");
    return retryAfter && asked >= 0 ? Math.min(asked, 30) : 0.5 * 2 ** tried;
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

const isPassing = (status: number) => status === 0 || status === 503 || status === 429;

/** The answer of a call; those that change nothing are tried again while the master is busy. */
async function ask(method: Method, url: string, body: unknown, abort?: AbortSignal) {
    for (let tried = 0; ; tried++) {
        let failure: ApiError;
        let wait: string | null = null;
        try {
            const answer = await once(method, url, body, abort);
            if (answer.ok) return answer;
            wait = answer.headers.get("Retry-After");
            failure = await readError(answer);
        } catch (error) {
            if (!(error instanceof ApiError)) throw error;
            failure = error;
        }
        if (failure.status === 401 && !url.startsWith(`${BASE}/auth/login`)) onSignedOut();
        if (method !== "GET" || !isPassing(failure.status) || tried + 1 === TRIES) throw failure;
        await sleep(pause(tried, wait), abort);
    }
}

export async function get<T>(path: string, query?: Query, abort?: AbortSignal): Promise<T> {
    const answer = await ask("GET", link(path, query), undefined, abort);
    return (await answer.json()) as T;
}

export async function send<T = unknown>(
    method: Method,
    path: string,
    body?: unknown,
    abort?: AbortSignal,
): Promise<T> {
    const answer = await ask(method, link(path), body, abort);
    const text = await answer.text();
    return (text ? JSON.parse(text) : {}) as T;
}

export function perform<T = unknown>(call: Call): Promise<T> {
    return send<T>(call.method, call.path, call.body);
}

/** A stream of lines {"result": T}, handed over in the portions in which they arrive. */
export async function stream<T>(
    path: string,
    query: Query,
    each: (items: T[]) => void,
    abort: AbortSignal,
): Promise<void> {
    const answer = await ask("GET", link(path, query), undefined, abort);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
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
        if (items.length) each(items);
        if (done) return;
    }
}

/** Whether an error only says that nobody waits for the answer any more. */
export function isAbort(error: unknown): boolean {
    return error instanceof DOMException && error.name === "AbortError";
}
