// Subscriptions of views to events of the cluster. The page has one source of events for all views. Events are
// delivered in one batch per frame, so a view renders at most once per frame.
// The source is a worker that all pages of the browser share (events_worker.ts). Without shared workers, as in
// Chrome on Android, the page has its own stream while it is visible. A hidden page would keep one of the
// browser's six connections to the master.

import { batch, type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import {
    EventStream,
    eventMatches,
    type MessageFromWorker,
    type EventFilter,
    type ClusterEvent,
    eventsUrl,
    HEARTBEAT_MS,
    type StreamState,
    type MessageToWorker,
} from "./stream";
import { whileVisible } from "./visibility";

export type { ClusterEvent, EventFilter } from "./stream";

type EventHandler = (event: ClusterEvent) => void;

interface Subscriber {
    filter: EventFilter;
    onEvent: EventHandler;
    onMissed: () => void;
}

const currentState = signal<StreamState>("off");
export const streamState: ReadonlySignal<StreamState> = currentState;

const subscribers = new Set<Subscriber>();
let pendingEvents: ClusterEvent[] = [];
let isScheduled = false;

function deliver(): void {
    isScheduled = false;
    const events = pendingEvents;
    pendingEvents = [];
    batch(() => {
        for (const event of events)
            for (const subscriber of [...subscribers])
                if (eventMatches(subscriber.filter, event)) subscriber.onEvent(event);
    });
}

// A hidden page gets no frames, but its data must stay current.
function scheduleDelivery(): void {
    if (isScheduled) return;
    isScheduled = true;
    if (document.hidden) setTimeout(deliver, 1000);
    else requestAnimationFrame(deliver);
}

function enqueue(events: readonly ClusterEvent[]): void {
    pendingEvents.push(...events);
    scheduleDelivery();
}

function notifyMissed(): void {
    batch(() => [...subscribers].forEach((follower) => follower.onMissed()));
}

// --- sources of events ---------------------------------------------------------------------------

interface Source {
    setFilters(filters: readonly EventFilter[]): void;
    restart(): void;
}

/** A stream of this page alone. */
class OwnSource implements Source {
    private url = "";
    private isSeen = false;
    private readonly stream = new EventStream({
        onState: (now) => (currentState.value = now),
        onEvent: (event) => enqueue([event]),
        onMissed: notifyMissed,
    });

    constructor(lastId: string) {
        this.stream.lastId = lastId;
        whileVisible((abort) => {
            this.isSeen = true;
            this.stream.subscribe(this.url);
            abort.addEventListener("abort", () => {
                this.isSeen = false;
                this.stream.subscribe("");
            });
        });
    }

    setFilters(filters: readonly EventFilter[]): void {
        this.url = eventsUrl(filters);
        if (this.isSeen) this.stream.subscribe(this.url);
    }

    restart(): void {
        if (this.isSeen) this.stream.restart();
    }
}

const ANSWER_TIMEOUT_MS = 5000;

/** The stream that all pages share. It calls `onBroken` once when the worker fails or does not answer. */
class SharedSource implements Source {
    private readonly port: MessagePort;
    private filters: readonly EventFilter[] = [];
    private attempts = 0; // without an answer
    private hasFailed = false;
    private lastId = "";
    private readonly timer: ReturnType<typeof setInterval>;

    constructor(private readonly onBroken: (lastId: string) => void) {
        const worker = new SharedWorker(new URL("./events_worker.ts", import.meta.url), {
            type: "module",
            name: "muster-events",
        });
        worker.onerror = this.fail;
        this.port = worker.port;
        this.port.onmessage = ({ data }: MessageEvent<MessageFromWorker>) => this.onMessage(data);
        this.timer = setInterval(this.sendFilters, HEARTBEAT_MS);
        addEventListener("pagehide", this.leave);
        addEventListener("pageshow", this.rejoin); // back from the browser's page cache
    }

    setFilters(filters: readonly EventFilter[]): void {
        this.filters = filters;
        this.sendFilters();
    }

    restart(): void {
        this.post({ restart: true });
    }

    private post(message: MessageToWorker): void {
        this.port.postMessage(message);
    }

    private readonly leave = () => this.post({ leave: true });
    private readonly rejoin = (event: PageTransitionEvent) => event.persisted && this.sendFilters();

    private readonly sendFilters = (): void => {
        this.post({ filters: this.filters });
        if (!this.attempts) this.awaitAnswer();
    };

    // Two attempts, because a page that was frozen had no time to receive the first answer.
    private awaitAnswer(): void {
        if (this.attempts++ === 2) return this.fail();
        setTimeout(() => {
            if (!this.attempts || this.hasFailed) return;
            this.post({ filters: this.filters });
            this.awaitAnswer();
        }, ANSWER_TIMEOUT_MS);
    }

    private onMessage({ state: now, lastId, events, missed }: MessageFromWorker): void {
        this.attempts = 0;
        this.lastId = lastId;
        currentState.value = now;
        if (events) enqueue(events);
        if (missed) notifyMissed();
    }

    // The browser may report an error of the worker several times, but each call of onBroken opens a stream.
    private readonly fail = (): void => {
        if (this.hasFailed) return;
        this.hasFailed = true;
        clearInterval(this.timer);
        removeEventListener("pagehide", this.leave);
        removeEventListener("pageshow", this.rejoin);
        this.leave();
        this.port.close();
        this.onBroken(this.lastId);
    };
}

let source: Source | undefined;

function openOwnSource(lastId = ""): Source {
    source = new OwnSource(lastId);
    source.setFilters(currentFilters());
    return source;
}

function getSource(): Source {
    try {
        return (source ??= "SharedWorker" in globalThis ? new SharedSource(openOwnSource) : openOwnSource());
    } catch {
        return openOwnSource(); // the settings of the browser forbid workers
    }
}

function currentFilters(): readonly EventFilter[] {
    const texts = new Set([...subscribers].map(({ filter }) => JSON.stringify(filter)));
    return [...texts].map((text) => JSON.parse(text) as EventFilter);
}

// Views often appear and disappear together, so one update is enough for all of them.
let updateTimer: ReturnType<typeof setTimeout> | undefined;
function scheduleUpdate(): void {
    clearTimeout(updateTimer);
    updateTimer = setTimeout(() => getSource().setFilters(currentFilters()), 50);
}

// --- for views -----------------------------------------------------------------------------------

/** Calls `onEvent` for matching events, and `onMissed` when events were lost and data must be loaded again. */
export function followEvents(filter: EventFilter, onEvent: EventHandler, onMissed: () => void): () => void {
    const subscriber = { filter, onEvent, onMissed };
    subscribers.add(subscriber);
    scheduleUpdate();
    return () => {
        subscribers.delete(subscriber);
        scheduleUpdate();
    };
}

/** Opens a new stream after another user has signed in. */
export function restartEvents(): void {
    source?.restart();
}

/** followEvents() while the component is mounted, always with its latest functions. */
export function useEvents(filter: EventFilter | undefined, onEvent: EventHandler, onMissed: () => void): void {
    const latest = useRef({ onEvent, onMissed });
    latest.current = { onEvent, onMissed };
    const text = filter && JSON.stringify(filter);
    useEffect(() => {
        if (!text) return;
        return followEvents(
            JSON.parse(text) as EventFilter,
            (event) => latest.current.onEvent(event),
            () => latest.current.onMissed(),
        );
    }, [text]);
}
