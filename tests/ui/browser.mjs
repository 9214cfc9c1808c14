// A browser, people signed in to the page, and what is asked of every page: that nothing goes wrong in
// its scripts, and that axe finds no fault with it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url); // looks in NODE_PATH, too
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const master = process.env.MUSTER_UI_URL;
export const PASSWORD = "correct horse battery staple";
export const WIDTHS = { 1440: 900, 390: 844 };

let browser;

export async function launch() {
    const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
    browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
    return browser;
}

export async function close() {
    await browser?.close();
    browser = undefined;
}

/** A window of its own, with its own cookies, of whom nobody knows. Its `faults` are what its scripts did wrong. */
export async function open({ theme = "light", width = 1440, reducedMotion = "reduce" } = {}) {
    const context = await (await launch()).newContext({
        baseURL: master,
        viewport: { width, height: WIDTHS[width] },
        colorScheme: theme,
        reducedMotion,
        timezoneId: "UTC",
        locale: "en-GB",
    });
    context.setDefaultTimeout(20_000);
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: master });
    const page = await context.newPage();
    page.faults = [];
    page.on("pageerror", (error) => page.faults.push(error.stack ?? String(error)));
    page.on("console", (message) => {
        // What the server refused is told to the user; that the browser tells it, too, is no fault.
        const isFault = message.type() === "error" && !message.text().startsWith("Failed to load resource");
        if (isFault) page.faults.push(message.text());
    });
    return page;
}

/** A window of somebody who has signed in. */
export async function signedIn(name = "determined", options = {}) {
    const page = await open(options);
    const answer = await page.request.post("/api/v1/auth/login?cookie=true", {
        data: { username: name, password: PASSWORD, isHashed: false },
        headers: { Origin: master },
    });
    assert.equal(answer.status(), 200, await answer.text());
    return page;
}

/** Closes the window; whatever went wrong in it fails the test. */
export async function done(page) {
    const { faults } = page;
    await page.context().close();
    assert.deepEqual(faults, []);
}

/** Waits until the page shows it. */
export const see = (locator) => locator.filter({ visible: true }).first().waitFor();

/** Waits until the page shows it no more. */
export const gone = (locator) => locator.first().waitFor({ state: "hidden" });

/** Opens a menu by its button, and does what this line of it says. */
export async function menu(button, name) {
    await button.click();
    await button.page().getByRole("menuitem", { name, exact: true }).click();
}

/** Says yes in the dialog that asks for it. */
export const agree = (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click();

/** A line of a menu that asks whether one is sure. */
export async function menuAgreed(button, line) {
    await menu(button, line);
    await agree(button.page(), line);
}

export async function until(what, condition, seconds = 20) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
        const value = await condition();
        if (value) return value;
        if (Date.now() > end) throw new Error(`waited ${seconds} s in vain until ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

/** Waits until this text is on the clipboard. */
export const copied = (page, text) =>
    until(`${text} is copied`, async () => (await page.evaluate(() => navigator.clipboard.readText())) === text, 5);

/** Waits until nothing on the page is on its way any more. */
export async function settled(page) {
    await see(page.getByRole("main"));
    const busy = page.locator(".waiting, .table-wait, [aria-busy=true]");
    await until("the page has all it shows", async () => (await busy.count()) === 0);
}

/** Brings every part of the page into sight once: what waits for that, such as a chart, is then there. */
export async function lookThrough(page) {
    await page.evaluate(async () => {
        const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const root = document.documentElement;
        for (let y = 0; y < root.scrollHeight; y += root.clientHeight / 2) {
            scrollTo(0, y);
            await frames();
        }
        scrollTo(0, 0);
        await frames();
    });
    await settled(page);
}

/** Makes the system's theme this one, which the open page follows. */
export async function turn(page, theme) {
    await page.emulateMedia({ colorScheme: theme });
    await page.locator(`html[data-theme=${theme}]`).waitFor({ state: "attached" });
}

/** What axe finds, in words; nothing wider than the window either. `only`: by some of its rules. */
export async function faultsOf(page, only) {
    if (!(await page.evaluate("typeof axe"))?.includes("object")) await page.evaluate(axeSource);
    const options = { resultTypes: ["violations"], ...(only ? { runOnly: only } : {}) };
    const { violations } = await page.evaluate((given) => axe.run(given), options);
    const faults = violations.map(({ id, help, nodes }) => {
        const places = nodes.slice(0, 4).map(({ target, any }) => `  ${target.join(" ")}: ${any[0]?.message ?? ""}`);
        return `${id}: ${help}, in ${nodes.length}\n${places.join("\n")}`;
    });
    const across = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if (across > 0) faults.push(`the page is ${across} pixels wider than the window`);
    return faults;
}
