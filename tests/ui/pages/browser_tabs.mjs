// Many tabs of one browser, which opens at most six connections to a master.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, closePage, expectHidden, master, expectVisible, openSignedIn, waitUntil } from "../browser.mjs";

const TABS = 12;
const headers = { Origin: master };

/** Counts in tab.streams the event streams that the tab itself opens. */
function countStreams(tab) {
    tab.streams = 0;
    tab.on("request", (request) => (tab.streams += request.url().includes("/api/v1/events")));
}

/** Opens more tabs of the same user. Their errors are collected with those of the first tab. */
async function openTabs(page, count, address) {
    const tabs = [page];
    countStreams(page);
    while (tabs.length < count) {
        const tab = await page.context().newPage();
        tab.on("pageerror", (error) => page.errors.push(error.stack ?? String(error)));
        countStreams(tab);
        tabs.push(tab);
    }
    await Promise.all(tabs.map((tab) => tab.goto(address)));
    return tabs;
}

const expectLive = (tab) => expectVisible(tab.locator(".connection-on"));
const expectAllLive = (tabs) => Promise.all(tabs.map(expectLive));

async function setDescription(page, text) {
    const answer = await page.request.patch("/api/v1/experiments/1", { headers, data: { description: text } });
    assert.equal(answer.status(), 200, await answer.text());
}

/** A browser that is busy draws no frames for tabs in the background, so each tab is shown first. */
async function expectShown(tab, text) {
    await tab.bringToFront();
    await expectVisible(tab.getByText(text));
}

async function expectAllShown(tabs, text) {
    for (const tab of tabs) await expectShown(tab, text);
}

/** Checks that a call from within the tab is answered. Without a free connection, the answer would never come. */
async function expectAnswer(tab) {
    const answer = tab.evaluate(async () => (await fetch("/api/v1/me", { cache: "no-store" })).status);
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error("no answer within 10 s")), 10_000).unref());
    assert.equal(await Promise.race([answer, late]), 200);
}

async function controlMaster(verb) {
    const answer = await fetch(`${process.env.MUSTER_UI_STEER}/${verb}`, { method: "POST" });
    assert.equal(answer.status, 204);
}

test("twelve tabs share one stream, while tabs close and the master restarts", async () => {
    const page = await openSignedIn();
    const tabs = await openTabs(page, TABS, "/experiments/1");
    await expectAllLive(tabs);
    await setDescription(page, "seen by all twelve");
    await expectAllShown(tabs, "seen by all twelve");
    await expectAnswer(tabs.at(-1));
    assert.deepEqual(tabs.map((tab) => tab.streams), Array(TABS).fill(0)); // no tab has its own stream

    for (const tab of tabs.splice(1, 3)) await tab.close();
    const [first] = tabs.splice(0, 1); // the tab that created the worker
    await first.goto("about:blank");
    await setDescription(page, "seen by those that stayed");
    await expectAllShown(tabs, "seen by those that stayed");

    await controlMaster("stop");
    await Promise.all(tabs.map((tab) => expectVisible(tab.locator(".connection-lost"))));
    await controlMaster("start");
    await expectAllLive(tabs);
    await setDescription(page, "seen after the restart");
    await expectAllShown(tabs, "seen after the restart");
    await expectAnswer(tabs.at(-1));
    await setDescription(page, "two spirals, separated by a small network");
    await closePage(page);
});

test("signing out applies to all tabs, and so does signing in as another user", async () => {
    const page = await openSignedIn("ada");
    const tabs = await openTabs(page, 3, "/queue");
    await expectAllLive(tabs);
    await tabs[0].getByRole("button", { name: "Signed in as Ada" }).click();
    await tabs[0].getByRole("menuitem", { name: "Sign out Ada" }).click();
    await Promise.all(tabs.map((tab) => expectVisible(tab.getByRole("button", { name: "Sign in" }))));
    await tabs[1].getByLabel("User").fill("victor");
    await tabs[1].getByLabel("Password").fill(PASSWORD);
    await tabs[1].getByRole("button", { name: "Sign in" }).click();
    await Promise.all(tabs.map((tab) => expectVisible(tab.getByRole("button", { name: "Signed in as Victor" }))));
    await expectAllLive(tabs);
    await closePage(page);
});

const setHidden = (tab, hidden) =>
    tab.evaluate((value) => {
        Object.defineProperty(document, "hidden", { configurable: true, value });
        document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);

test("without shared workers, hidden tabs have no stream, and catch up when they are shown", async () => {
    const page = await openSignedIn();
    await page.context().addInitScript(() => delete globalThis.SharedWorker);
    const tabs = [page];
    await page.goto("/experiments/1");
    while (tabs.length < TABS) {
        await expectLive(tabs.at(-1));
        await setHidden(tabs.at(-1), true);
        await expectHidden(tabs.at(-1).locator(".connection-on"));
        tabs.push(await page.context().newPage());
        await tabs.at(-1).goto("/experiments/1");
    }
    await expectLive(tabs.at(-1));
    await expectAnswer(tabs.at(-1));
    await setDescription(page, "written while hidden");
    await expectShown(tabs.at(-1), "written while hidden");
    await setHidden(tabs.at(-1), true);
    await setHidden(tabs[0], false);
    await expectShown(tabs[0], "written while hidden");
    await setDescription(page, "two spirals, separated by a small network");
    await closePage(page);
});

// A worker whose file does not exist, and a worker that never answers.
const brokenWorkers = {
    absent: () => (globalThis.SharedWorker = class extends SharedWorker {
        constructor(url, options) {
            super(`${url}.absent.js`, options);
        }
    }),
    silent: () => (globalThis.SharedWorker = class {
        port = new MessageChannel().port1;
    }),
};

for (const [word, script] of Object.entries(brokenWorkers))
    test(`a page works without a worker that is ${word}`, async () => {
        const page = await openSignedIn();
        countStreams(page);
        await page.context().addInitScript(script);
        await page.goto("/experiments/1");
        await expectLive(page);
        assert.ok(page.streams > 0);
        await closePage(page);
    });

test("the master's log uses no connection while the tab is hidden", async () => {
    const page = await openSignedIn("admin");
    const first = page.waitForRequest((request) => request.url().includes("/master/logs"));
    await page.goto("/admin?tab=log");
    const log = page.getByRole("log").or(page.getByLabel("Master log"));
    await expectVisible(log);
    await first;
    let begun = 0;
    page.on("request", (request) => (begun += request.url().includes("/master/logs")));
    const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("/master/logs"));
    await setHidden(page, true);
    await ended;
    await setHidden(page, false);
    await waitUntil("the log is read again", () => begun === 1);
    await closePage(page);
});
