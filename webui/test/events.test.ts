// The source of events with a failing shared worker, in a simulated browser.

import assert from "node:assert/strict";
import { test } from "node:test";

let streams = 0; // opened by the page itself
let worker: FailingWorker | undefined;

class FailingWorker {
    onerror: () => void = () => undefined;
    port = { postMessage() {}, close() {}, onmessage: null };
    constructor() {
        worker = this;
    }
}

class CountedSource {
    constructor() {
        streams++;
    }
    addEventListener() {}
    close() {}
}

// Timers that run when the test advances the clock.
let now = 0;
let timers: { at: number; run: () => void }[] = [];
const later = (run: () => void, ms: number) => timers.push({ at: now + ms, run });

function pass(ms: number): void {
    const until = now + ms;
    for (;;) {
        timers.sort((a, b) => a.at - b.at);
        const [next] = timers;
        if (!next || next.at > until) break;
        timers.shift();
        now = next.at;
        next.run();
    }
    now = until;
}

const page = Object.assign(new EventTarget(), { hidden: false });
Object.assign(globalThis, {
    SharedWorker: FailingWorker,
    EventSource: CountedSource,
    document: page,
    setTimeout: later,
    setInterval: () => 0,
    clearTimeout() {},
    clearInterval() {},
    addEventListener: page.addEventListener.bind(page),
    removeEventListener: page.removeEventListener.bind(page),
});

test("a page whose shared worker fails opens one stream of its own, not two", async () => {
    const { followEvents: follow } = await import("../src/lib/events/subscribe");
    const ignore = () => undefined;
    follow({ topics: ["queue"] }, ignore, ignore);
    pass(100);
    assert.ok(worker);
    assert.equal(streams, 0);
    worker.onerror();
    worker.onerror();
    pass(60_000); // longer than the timeout for an answer of the worker
    assert.equal(streams, 1);
});
