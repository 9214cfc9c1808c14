// Helpers for tests of the page: a browser, signed-in windows, waiting, and checks that hold on every page: no
// script errors, and no accessibility problems found by axe.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url); // also searches NODE_PATH
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const master = process.env.MUSTER_UI_URL;
export const PASSWORD = "correct horse battery staple";
export const WIDTHS = { 1440: 900, 390: 844 };
const PATIENCE_S = 60; // a trial starts and ends within seconds on an idle machine, within 35 on a busy one

let browser;

export async function launchBrowser() {
    const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
    browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
    return browser;
}

export async function closeBrowser() {
    await browser?.close();
    browser = undefined;
}

/** A new window with its own cookies, not signed in. `page.errors` collects the errors of its scripts. */
export async function openPage({ theme = "light", width = 1440, reducedMotion = "reduce" } = {}) {
    const context = await (await launchBrowser()).newContext({
        baseURL: master,
        viewport: { width, height: WIDTHS[width] },
        colorScheme: theme,
        reducedMotion,
        timezoneId: "UTC",
        locale: "en-GB",
    });
    context.setDefaultTimeout(PATIENCE_S * 1000);
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: master });
    const page = await context.newPage();
    page.errors = [];
    page.on("pageerror", (error) => page.errors.push(error.stack ?? String(error)));
    page.on("console", (message) => {
        // The page shows errors of the server itself, so the browser's own messages about them are ignored.
        const isError = message.type() === "error" && !message.text().startsWith("Failed to load resource");
        if (isError) page.errors.push(message.text());
    });
    return page;
}

/** A new window with a signed-in user. */
export async function openSignedIn(name = "determined", options = {}) {
    const page = await openPage(options);
    const answer = await page.request.post("/api/v1/auth/login?cookie=true", {
        data: { username: name, password: PASSWORD, isHashed: false },
        headers: { Origin: master },
    });
    assert.equal(answer.status(), 200, await answer.text());
    return page;
}

/** Closes the window. Script errors fail the test. */
export async function closePage(page) {
    const { errors } = page;
    await page.context().close();
    assert.deepEqual(errors, []);
}

/** Waits until the page shows the element. */
export const expectVisible = (locator) => locator.filter({ visible: true }).first().waitFor();

/** Waits until the page no longer shows the element. */
export const expectHidden = (locator) => locator.first().waitFor({ state: "hidden" });

/** Opens a menu by its button, and clicks an item. */
export async function clickMenuItem(button, name) {
    await button.click();
    await button.page().getByRole("menuitem", { name, exact: true }).click();
}

/** Clicks a button of the open dialog. */
export const confirmDialog = (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click();

/** Clicks a menu item that asks for confirmation, and confirms. */
export async function clickMenuItemAndConfirm(button, line) {
    await clickMenuItem(button, line);
    await confirmDialog(button.page(), line);
}

export async function waitUntil(description, condition, seconds = PATIENCE_S) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
        const value = await condition();
        if (value) return value;
        if (Date.now() > end) throw new Error(`waited ${seconds} s until ${description}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

/** Waits until this text is on the clipboard. */
export const expectCopied = (page, text) =>
    waitUntil(`${text} is copied`, async () => (await page.evaluate(() => navigator.clipboard.readText())) === text, 5);

/** Waits until the page has loaded all its data. */
export async function waitForData(page) {
    await expectVisible(page.getByRole("main"));
    const busy = page.locator(".loading, .table-placeholder, [aria-busy=true]");
    await waitUntil("the page has loaded its data", async () => (await busy.count()) === 0);
}

/** Scrolls through the page, so that parts that load when they become visible, such as charts, are loaded. */
export async function scrollThroughPage(page) {
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
    await waitForData(page);
}

/** Sets the theme of the system. The open page follows it. */
export async function setTheme(page, theme) {
    await page.emulateMedia({ colorScheme: theme });
    await page.locator(`html[data-theme=${theme}]`).waitFor({ state: "attached" });
}

/** The problems that axe finds, and content wider than the window. `only`: a selection of axe's rules. */
export async function findProblems(page, only) {
    if (!(await page.evaluate("typeof axe"))?.includes("object")) await page.evaluate(axeSource);
    const options = { resultTypes: ["violations"], ...(only ? { runOnly: only } : {}) };
    const { violations } = await page.evaluate((given) => axe.run(given), options);
    const problems = violations.map(({ id, help, nodes }) => {
        const elements = nodes.slice(0, 4).map(({ target, any }) => `  ${target.join(" ")}: ${any[0]?.message ?? ""}`);
        return `${id}: ${help}, in ${nodes.length}\n${elements.join("\n")}`;
    });
    const overflow = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if (overflow > 0) problems.push(`the page is ${overflow} pixels wider than the window`);
    return problems;
}
