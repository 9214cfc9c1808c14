// node live.mjs MINUTES: the table of experiments, then the overview, each for half of the time, with an
// input a second; how long each takes until the next paint, whether what is shown moves, and what of the
// heap is left after a collection, in the table before and after.

import { close, done, settled, signedIn } from "../../ui/browser.mjs";
import { tell } from "./say.mjs";

const minutes = Number(process.argv[2]);
const SHOWN = 5; // experiments that are looked at

/** Inputs and the longest of their events; events are told from 16 ms on, in steps of 8. */
function watch() {
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
            click("combobox", "Filter of experiments"), key("s"), key("t"), key("Backspace"), key("Backspace"), key("Escape"),
            box, key("j"), key("j"), key("k"), key("x"), key("x"), box,
            click("button", "Narrow by state"), key("Escape"), click("button", "Choose columns"), key("Escape"),
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
    await settled(page);
    await page.waitForFunction((name) => document.querySelector(name), ".table a, .overview-list li");
    await pause(1000);
}

async function use(page, name, seconds) {
    const { inputs, values } = views[name];
    const [began, heard] = [performance.now(), await page.evaluate(() => window.heard)];
    for (let i = 0; performance.now() - began < seconds * 1000; i++) {
        const before = await page.evaluate(values, SHOWN);
        await page.evaluate(() => (window.inputs.length = 0));
        await inputs[i % inputs.length](page);
        await pause(1000);
        tell(`input ${name}`, await page.evaluate(() => Math.max(16, ...window.inputs)));
        const after = await page.evaluate(values, SHOWN);
        tell(`moved ${name}`, Number(after.length === SHOWN && after.every((value, k) => value !== before[k])));
    }
    await page.keyboard.press("Escape"); // what may be open
    const events = (await page.evaluate(() => window.heard)) - heard;
    tell(`events ${name}`, (events * 1000) / (performance.now() - began));
}

async function weigh(page, when) {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    for (let i = 0; i < 3; i++) await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((metric) => metric.name === name).value;
    tell(`heap ${when}`, of("JSHeapUsedSize"));
    tell(`nodes ${when}`, of("Nodes"));
    await session.detach();
}

const page = await signedIn();
await page.addInitScript(watch);
await page.goto("/experiments");
for (const view of [views.overview, views.table]) {
    await goTo(page, view);
    for (const input of view.inputs) {
        await input(page); // what is loaded or made when it is first used is there from now on
        await pause(200);
    }
    await page.keyboard.press("Escape");
}
await weigh(page, "start");
for (const name of Object.keys(views)) {
    await goTo(page, views[name]);
    await use(page, name, minutes * 30);
}
await goTo(page, views.table);
await weigh(page, "end");
await done(page);
await close();
