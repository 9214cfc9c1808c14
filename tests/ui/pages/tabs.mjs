// Many tabs of one browser: it opens at most six connections to a master, whatever the tabs do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, done, gone, master, see, signedIn, until } from "../browser.mjs";

const TABS = 12;
const headers = { Origin: master };

/** Counts in page.streams the event streams that the tab itself opens. */
function countStreams(tab) {
    tab.streams = 0;
    tab.on("request", (request) => (tab.streams += request.url().includes("/api/v1/events")));
}

/** More tabs of the person whose `page` it is; their faults are kept with the first one's. */
async function openTabs(page, count, address) {
    const tabs = [page];
    countStreams(page);
    while (tabs.length < count) {
        const tab = await page.context().newPage();
        tab.on("pageerror", (error) => page.faults.push(error.stack ?? String(error)));
        countStreams(tab);
        tabs.push(tab);
    }
    await Promise.all(tabs.map((tab) => tab.goto(address)));
    return tabs;
}

const isLive = (tab) => see(tab.locator(".live-on"));
const allLive = (tabs) => Promise.all(tabs.map(isLive));

async function describe(page, text) {
    const answer = await page.request.patch("/api/v1/experiments/1", { headers, data: { description: text } });
    assert.equal(answer.status(), 200, await answer.text());
}

const allSee = (tabs, text) => Promise.all(tabs.map((tab) => see(tab.getByText(text))));

/** A call from within the tab is answered; the deadline is generous, without a connection it never comes. */
async function asks(tab) {
    const answer = tab.evaluate(async () => (await fetch("/api/v1/me", { cache: "no-store" })).status);
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error("no answer within 10 s")), 10_000).unref());
    assert.equal(await Promise.race([answer, late]), 200);
}

async function steer(verb) {
    const answer = await fetch(`${process.env.MUSTER_UI_STEER}/${verb}`, { method: "POST" });
    assert.equal(answer.status, 204);
}

test("twelve tabs are live by one stream, while tabs close and the master restarts", async () => {
    const page = await signedIn();
    const tabs = await openTabs(page, TABS, "/experiments/1");
    await allLive(tabs);
    await describe(page, "seen by all twelve");
    await allSee(tabs, "seen by all twelve");
    await asks(tabs.at(-1));
    assert.deepEqual(tabs.map((tab) => tab.streams), Array(TABS).fill(0)); // none of a tab's own

    for (const tab of tabs.splice(1, 3)) await tab.close();
    const [first] = tabs.splice(0, 1); // the one that had the worker made
    await first.goto("about:blank");
    await describe(page, "seen by those that stayed");
    await allSee(tabs, "seen by those that stayed");

    await steer("stop");
    await Promise.all(tabs.map((tab) => see(tab.locator(".live-lost"))));
    await steer("start");
    await allLive(tabs);
    await describe(page, "seen after the restart");
    await allSee(tabs, "seen after the restart");
    await asks(tabs.at(-1));
    await describe(page, "two spirals, told apart by a small network");
    await done(page);
});

test("who signs out does so in every tab, and another user's pages come anew", async () => {
    const page = await signedIn("ada");
    const tabs = await openTabs(page, 3, "/queue");
    await allLive(tabs);
    await tabs[0].getByRole("button", { name: "Signed in as Ada" }).click();
    await tabs[0].getByRole("menuitem", { name: "Sign out Ada" }).click();
    await Promise.all(tabs.map((tab) => see(tab.getByRole("button", { name: "Sign in" }))));
    await tabs[1].getByLabel("User").fill("victor");
    await tabs[1].getByLabel("Password").fill(PASSWORD);
    await tabs[1].getByRole("button", { name: "Sign in" }).click();
    await Promise.all(tabs.map((tab) => see(tab.getByRole("button", { name: "Signed in as Victor" }))));
    await allLive(tabs);
    await done(page);
});

const hide = (tab, hidden) =>
    tab.evaluate((value) => {
        Object.defineProperty(document, "hidden", { configurable: true, value });
        document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);

test("without a shared worker hidden tabs have no stream, and catch up when they are seen", async () => {
    const page = await signedIn();
    await page.context().addInitScript(() => delete globalThis.SharedWorker);
    const tabs = [page];
    await page.goto("/experiments/1");
    while (tabs.length < TABS) {
        await isLive(tabs.at(-1));
        await hide(tabs.at(-1), true);
        await gone(tabs.at(-1).locator(".live-on"));
        tabs.push(await page.context().newPage());
        await tabs.at(-1).goto("/experiments/1");
    }
    await isLive(tabs.at(-1));
    await asks(tabs.at(-1));
    await describe(page, "written while hidden");
    await see(tabs.at(-1).getByText("written while hidden"));
    await hide(tabs.at(-1), true);
    await hide(tabs[0], false);
    await see(tabs[0].getByText("written while hidden"));
    await describe(page, "two spirals, told apart by a small network");
    await done(page);
});

// One whose file is not there, and one that never says a word.
const broken = {
    absent: () => (globalThis.SharedWorker = class extends SharedWorker {
        constructor(url, options) {
            super(`${url}.absent.js`, options);
        }
    }),
    silent: () => (globalThis.SharedWorker = class {
        port = new MessageChannel().port1;
    }),
};

for (const [word, script] of Object.entries(broken))
    test(`a page does without a worker that is ${word}`, async () => {
        const page = await signedIn();
        countStreams(page);
        await page.context().addInitScript(script);
        await page.goto("/experiments/1");
        await isLive(page);
        assert.ok(page.streams > 0);
        await done(page);
    });

test("the master's log takes no connection while nobody sees it", async () => {
    const page = await signedIn("admin");
    await page.goto("/admin?tab=log");
    const log = page.getByRole("log").or(page.getByLabel("The master's log"));
    await see(log);
    let begun = 0;
    page.on("request", (request) => (begun += request.url().includes("/master/logs")));
    const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("/master/logs"));
    await hide(page, true);
    await ended;
    await hide(page, false);
    await until("it is read again", () => begun === 1);
    await done(page);
});
