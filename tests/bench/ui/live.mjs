// node live.mjs MINUTES: opens the table of experiments, then the overview, each for half of the time, with one
// input per second. It measures the time from each input to the next paint, whether the shown values change, and
// the heap of the table after garbage collection, at the start and at the end.

import { closeBrowser, closePage, waitForData, openSignedIn } from "../../ui/browser.mjs";
import { report } from "./samples.mjs";

const minutes = Number(process.argv[2]);
const SHOWN = 5; // experiments whose values are observed

/** Records the durations of input events. The browser reports durations from 16 ms on, in steps of 8 ms. */
function recordInputs() {
    window.inputs = [];
    new PerformanceObserver((list) => {
        for (const { interactionId, duration } of list.getEntries())
            if (interactionId) window.inputs.push(duration);
    }).observe({ type: "event", durationThreshold: 16 });
    window.heard = 0;
    const listen = EventSource.prototype.addEventListener;
    EventSource.prototype.addEventListener = function (type, on) {
        listen.call(this, type, (event) => (window.heard++, on(event)));
    };
}

function tableValues(most) {
    const lines = [...document.querySelectorAll("tbody tr[data-index]")].slice(0, most);
    return lines.map((line) => line.querySelector("td:nth-child(6)").textContent);
}

function overviewValues(most) {
    return [...document.querySelectorAll(".running-loss b")].slice(0, most).map((value) => value.textContent);
}

const key = (name) => (page) => page.keyboard.press(name);
const click = (role, name) => (page) => page.getByRole(role, { name }).click();
const box = (page) => page.locator("tbody .table-box input").nth(1).click();

const views = {
    table: {
        link: "Experiments",
        values: tableValues,
        inputs: [
            click("combobox", "Filter experiments"), key("s"), key("t"), key("Backspace"), key("Backspace"), key("Escape"),
            box, key("j"), key("j"), key("k"), key("x"), key("x"), box,
            click("button", "Filter by state"), key("Escape"), click("button", "Choose columns"), key("Escape"),
        ],
    },
    overview: {
        link: "Overview",
        values: overviewValues,
        inputs: [
            key("Control+k"), key("e"), key("x"), key("Escape"), key("?"), key("Escape"),
            click("button", "Dark theme"), click("button", "Light theme"), click("button", /^Signed in as/), key("Escape"),
        ],
    },
};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function goTo(page, { link }) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: link }).click();
    await page.getByRole("heading", { name: link, level: 1 }).waitFor();
    await waitForData(page);
    await page.waitForFunction((name) => document.querySelector(name), ".table a, .overview-list li");
    await pause(1000);
}

async function measureView(page, name, seconds) {
    const { inputs, values } = views[name];
    const [began, heard] = [performance.now(), await page.evaluate(() => window.heard)];
    for (let i = 0; performance.now() - began < seconds * 1000; i++) {
        const before = await page.evaluate(values, SHOWN);
        await page.evaluate(() => (window.inputs.length = 0));
        await inputs[i % inputs.length](page);
        await pause(1000);
        report(`input ${name}`, await page.evaluate(() => Math.max(16, ...window.inputs)));
        const after = await page.evaluate(values, SHOWN);
        report(`moved ${name}`, Number(after.length === SHOWN && after.every((value, k) => value !== before[k])));
    }
    await page.keyboard.press("Escape"); // closes an open menu or dialog
    const events = (await page.evaluate(() => window.heard)) - heard;
    report(`events ${name}`, (events * 1000) / (performance.now() - began));
}

async function reportMemory(page, when) {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    for (let i = 0; i < 3; i++) await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((metric) => metric.name === name).value;
    report(`heap ${when}`, of("JSHeapUsedSize"));
    report(`nodes ${when}`, of("Nodes"));
    await session.detach();
}

const page = await openSignedIn();
await page.addInitScript(recordInputs);
await page.goto("/experiments");
for (const view of [views.overview, views.table]) {
    await goTo(page, view);
    for (const input of view.inputs) {
        await input(page); // loads and creates everything that first use needs
        await pause(200);
    }
    await page.keyboard.press("Escape");
}
await reportMemory(page, "start");
for (const name of Object.keys(views)) {
    await goTo(page, views[name]);
    await measureView(page, name, minutes * 30);
}
await goTo(page, views.table);
await reportMemory(page, "end");
await closePage(page);
await closeBrowser();
