// Live events of the cluster. Views follow topics while they are shown; the page has one source of events
// for all of them. Events are handed over in one batch per frame, so however many come, a view is drawn
// once.
//
// The source is a worker that all pages of the browser share (events_worker.ts). Where there is none, such as in
// Chrome on Android, the page has a stream of its own while somebody sees it: a hidden page would keep one
// of the browser's six connections to the master.

import { batch, type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import {
    EventStream,
    fits,
    type FromWorker,
    type Interest,
    type LiveEvent,
    question,
    SIGN_OF_LIFE_MS,
    type StreamState,
    type ToWorker,
} from "./events";
import { whileSeen } from "./seen";

export type { Interest, LiveEvent } from "./events";

type On = (event: LiveEvent) => void;

interface Follower {
    interest: Interest;
    on: On;
    missed: () => void;
}

const state = signal<StreamState>("off");
export const live: ReadonlySignal<StreamState> = state;

const followers = new Set<Follower>();
let waiting: LiveEvent[] = [];
let planned = false;

function deliver(): void {
    planned = false;
    const events = waiting;
    waiting = [];
    batch(() => {
        for (const event of events)
            for (const follower of [...followers])
                if (fits(follower.interest, event)) follower.on(event);
    });
}

// A page that is not seen gets no frames, but is to stay true.
function plan(): void {
    if (planned) return;
    planned = true;
    if (document.hidden) setTimeout(deliver, 1000);
    else requestAnimationFrame(deliver);
}

function hear(events: readonly LiveEvent[]): void {
    waiting.push(...events);
    plan();
}

function tellMissed(): void {
    batch(() => [...followers].forEach((follower) => follower.missed()));
}

// --- where events come from ----------------------------------------------------------------------

interface Source {
    want(interests: readonly Interest[]): void;
    restart(): void;
}

/** A stream of this page's own. */
class Own implements Source {
    private url = "";
    private isSeen = false;
    private readonly stream = new EventStream({
        onState: (now) => (state.value = now),
        onEvent: (event) => hear([event]),
        onMissed: tellMissed,
    });

    constructor(lastId: string) {
        this.stream.lastId = lastId;
        whileSeen((abort) => {
            this.isSeen = true;
            this.stream.ask(this.url);
            abort.addEventListener("abort", () => {
                this.isSeen = false;
                this.stream.ask("");
            });
        });
    }

    want(interests: readonly Interest[]): void {
        this.url = question(interests);
        if (this.isSeen) this.stream.ask(this.url);
    }

    restart(): void {
        if (this.isSeen) this.stream.restart();
    }
}

const PATIENCE_MS = 5000;

/** The stream that all pages share. Calls `onBroken` once, when the worker fails or does not answer. */
class Shared implements Source {
    private readonly port: MessagePort;
    private wants: readonly Interest[] = [];
    private tries = 0; // to get an answer
    private ended = false;
    private lastId = "";
    private readonly timer: ReturnType<typeof setInterval>;

    constructor(private readonly onBroken: (lastId: string) => void) {
        const worker = new SharedWorker(new URL("./events_worker.ts", import.meta.url), {
            type: "module",
            name: "muster-events",
        });
        worker.onerror = this.end;
        this.port = worker.port;
        this.port.onmessage = ({ data }: MessageEvent<FromWorker>) => this.hear(data);
        this.timer = setInterval(this.ask, SIGN_OF_LIFE_MS);
        addEventListener("pagehide", this.leave);
        addEventListener("pageshow", this.comeBack); // from the browser's memory of pages
    }

    want(interests: readonly Interest[]): void {
        this.wants = interests;
        this.ask();
    }

    restart(): void {
        this.post({ restart: true });
    }

    private post(message: ToWorker): void {
        this.port.postMessage(message);
    }

    private readonly leave = () => this.post({ leave: true });
    private readonly comeBack = (event: PageTransitionEvent) => event.persisted && this.ask();

    private readonly ask = (): void => {
        this.post({ want: this.wants });
        if (!this.tries) this.expect();
    };

    // Twice, as a page that was frozen has had no time to hear the first answer.
    private expect(): void {
        if (this.tries++ === 2) return this.end();
        setTimeout(() => {
            if (!this.tries || this.ended) return;
            this.post({ want: this.wants });
            this.expect();
        }, PATIENCE_MS);
    }

    private hear({ state: now, lastId, events, missed }: FromWorker): void {
        this.tries = 0;
        this.lastId = lastId;
        state.value = now;
        if (events) hear(events);
        if (missed) tellMissed();
    }

    // Once, though the browser may report a fault of the worker several times: each call of onBroken
    // opens a stream.
    private readonly end = (): void => {
        if (this.ended) return;
        this.ended = true;
        clearInterval(this.timer);
        removeEventListener("pagehide", this.leave);
        removeEventListener("pageshow", this.comeBack);
        this.leave();
        this.port.close();
        this.onBroken(this.lastId);
    };
}

let source: Source | undefined;

function own(lastId = ""): Source {
    source = new Own(lastId);
    source.want(wanted());
    return source;
}

function theSource(): Source {
    try {
        return (source ??= "SharedWorker" in globalThis ? new Shared(own) : own());
    } catch {
        return own(); // the browser's settings forbid workers
    }
}

function wanted(): readonly Interest[] {
    const texts = new Set([...followers].map(({ interest }) => JSON.stringify(interest)));
    return [...texts].map((text) => JSON.parse(text) as Interest);
}

// Views come and go together; one question is enough for all of them.
let changed: ReturnType<typeof setTimeout> | undefined;
function reconsider(): void {
    clearTimeout(changed);
    changed = setTimeout(() => theSource().want(wanted()), 50);
}

// --- for views -----------------------------------------------------------------------------------

/** Calls `on` for what fits; `missed` when events were lost and things must be read anew. */
export function follow(interest: Interest, on: On, missed: () => void): () => void {
    const follower = { interest, on, missed };
    followers.add(follower);
    reconsider();
    return () => {
        followers.delete(follower);
        reconsider();
    };
}

/** Another user has signed in: a stream is its user's. */
export function restartEvents(): void {
    source?.restart();
}

/** follow() while the component is there, always with its newest functions. */
export function useLive(interest: Interest | undefined, on: On, missed: () => void): void {
    const newest = useRef({ on, missed });
    newest.current = { on, missed };
    const text = interest && JSON.stringify(interest);
    useEffect(() => {
        if (!text) return;
        return follow(
            JSON.parse(text) as Interest,
            (event) => newest.current.on(event),
            () => newest.current.missed(),
        );
    }, [text]);
}
