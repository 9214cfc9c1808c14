// The only event stream of a browser. A browser opens at most six connections to a master, so one stream per page
// would soon use them all. All pages share this worker: it subscribes to the union of their filters and passes
// each page the matching events.

import {
    EventStream,
    eventMatches,
    type MessageFromWorker,
    type EventFilter,
    type ClusterEvent,
    eventsUrl,
    HEARTBEAT_MS,
    type MessageToWorker,
} from "./stream";

const BATCH_MS = 20;
const TIMEOUT_MS = 3.5 * HEARTBEAT_MS; // without a heartbeat for so long, a page has crashed or is frozen

class Page {
    filters: readonly EventFilter[] = [];
    lastMessageAt = 0;
    private waiting: ClusterEvent[] = [];
    private hasLeft = false;

    constructor(private readonly port: MessagePort) {
        port.onmessage = ({ data }: MessageEvent<MessageToWorker>) => this.onMessage(data);
    }

    enqueue(event: ClusterEvent): void {
        if (this.filters.some((one) => eventMatches(one, event))) this.waiting.push(event);
    }

    /** Sends the pending events and the state of the stream. */
    notify(missed = false): void {
        const message: MessageFromWorker = { state: stream.state, lastId: stream.lastId, missed };
        if (this.waiting.length) message.events = this.waiting;
        this.waiting = [];
        this.port.postMessage(message);
    }

    flush(): void {
        if (this.waiting.length) this.notify();
    }

    /** The page gets no events until its next message, and is told then that it missed events. */
    leave(): void {
        pages.delete(this);
        this.waiting = [];
        this.hasLeft = true;
        scheduleSubscribe();
    }

    private onMessage(message: MessageToWorker): void {
        this.lastMessageAt = Date.now();
        if ("restart" in message) return stream.restart();
        if ("leave" in message) return this.leave();
        pages.add(this);
        this.filters = message.filters;
        this.notify(this.hasLeft);
        this.hasLeft = false;
        scheduleSubscribe();
    }
}

const pages = new Set<Page>();
const forEachPage = (visit: (page: Page) => void) => [...pages].forEach(visit);

const stream = new EventStream({
    onState: () => forEachPage((page) => page.notify()),
    onMissed: () => forEachPage((page) => page.notify(true)),
    onEvent: (event) => {
        forEachPage((page) => page.enqueue(event));
        flushTimer ??= setTimeout(flush, BATCH_MS);
    },
});

let flushTimer: ReturnType<typeof setTimeout> | undefined;
function flush(): void {
    flushTimer = undefined;
    forEachPage((page) => page.flush());
}

// Pages often change their filters at the same time, for example after a restart of the master.
let subscribeTimer: ReturnType<typeof setTimeout> | undefined;
function scheduleSubscribe(): void {
    subscribeTimer ??= setTimeout(() => {
        subscribeTimer = undefined;
        stream.subscribe(eventsUrl([...pages].flatMap((page) => page.filters)));
    }, BATCH_MS);
}

setInterval(() => {
    const oldest = Date.now() - TIMEOUT_MS;
    forEachPage((page) => page.lastMessageAt < oldest && page.leave());
}, HEARTBEAT_MS);

// TypeScript compiles with the types of a page, whose global scope has no `onconnect`.
const scope = globalThis as unknown as { onconnect: (event: MessageEvent) => void };
scope.onconnect = ({ ports: [port] }) => new Page(port!);
