// The one event stream of a browser. A browser opens at most six connections to a master, so pages that each
// had a stream of their own would leave none for anything else. All pages share this worker: it asks for the sum
// of what they want, and hands each page the events that fit.

import {
    EventStream,
    fits,
    type FromWorker,
    type Interest,
    type LiveEvent,
    question,
    SIGN_OF_LIFE_MS,
    type ToWorker,
} from "./events";

const BATCH_MS = 20;
const SILENT_MS = 3.5 * SIGN_OF_LIFE_MS; // then a page has crashed, or the browser froze it

class Page {
    wants: readonly Interest[] = [];
    heardAt = 0;
    private waiting: LiveEvent[] = [];
    private hasLeft = false;

    constructor(private readonly port: MessagePort) {
        port.onmessage = ({ data }: MessageEvent<ToWorker>) => this.hear(data);
    }

    take(event: LiveEvent): void {
        if (this.wants.some((one) => fits(one, event))) this.waiting.push(event);
    }

    /** Tells the state of the stream, behind the events that came before. */
    tell(missed = false): void {
        const message: FromWorker = { state: stream.state, lastId: stream.lastId, missed };
        if (this.waiting.length) message.events = this.waiting;
        this.waiting = [];
        this.port.postMessage(message);
    }

    flush(): void {
        if (this.waiting.length) this.tell();
    }

    /** It hears nothing until it speaks again, and is told then that it missed something. */
    leave(): void {
        pages.delete(this);
        this.waiting = [];
        this.hasLeft = true;
        reconsider();
    }

    private hear(message: ToWorker): void {
        this.heardAt = Date.now();
        if ("restart" in message) return stream.restart();
        if ("leave" in message) return this.leave();
        pages.add(this);
        this.wants = message.want;
        this.tell(this.hasLeft);
        this.hasLeft = false;
        reconsider();
    }
}

const pages = new Set<Page>();
const all = (each: (page: Page) => void) => [...pages].forEach(each);

const stream = new EventStream({
    onState: () => all((page) => page.tell()),
    onMissed: () => all((page) => page.tell(true)),
    onEvent: (event) => {
        all((page) => page.take(event));
        batch ??= setTimeout(flush, BATCH_MS);
    },
});

let batch: ReturnType<typeof setTimeout> | undefined;
function flush(): void {
    batch = undefined;
    all((page) => page.flush());
}

// Pages change what they want together, such as all after the master was away.
let changed: ReturnType<typeof setTimeout> | undefined;
function reconsider(): void {
    changed ??= setTimeout(() => {
        changed = undefined;
        stream.ask(question([...pages].flatMap((page) => page.wants)));
    }, BATCH_MS);
}

setInterval(() => {
    const oldest = Date.now() - SILENT_MS;
    all((page) => page.heardAt < oldest && page.leave());
}, SIGN_OF_LIFE_MS);

// The type of a page's global scope, which has no `onconnect`, is the one that is compiled with.
const scope = globalThis as unknown as { onconnect: (event: MessageEvent) => void };
scope.onconnect = ({ ports: [port] }) => new Page(port!);
