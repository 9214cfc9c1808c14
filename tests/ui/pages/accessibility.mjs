// Accessibility: axe finds no problems on any view, wide and narrow, in both themes, nor in menus and dialogs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { closePage, findProblems, openPage, expectVisible, waitForData, openSignedIn, setTheme } from "../browser.mjs";
import { views } from "../views.mjs";

const COLOUR_RULES = ["color-contrast", "link-in-text-block"]; // the rules that depend on the theme

/** The problems of the open page, in both themes. */
async function findProblemsInBothThemes(page) {
    const light = await findProblems(page);
    await setTheme(page, "dark");
    const dark = await findProblems(page, COLOUR_RULES);
    await setTheme(page, "light");
    return [...light, ...dark.map((fault) => `dark: ${fault}`), ...page.errors.splice(0)];
}

for (const width of [1440, 390])
    test(`axe in both themes, ${width} pixels wide`, async (t) => {
        const windows = {};
        for (const { name, path, user = "determined" } of views)
            await t.test(name, async () => {
                const page = (windows[user] ??= await (user ? openSignedIn(user, { width }) : openPage({ width })));
                await page.goto(path);
                await waitForData(page);
                const faults = await findProblemsInBothThemes(page);
                assert.equal(faults.length, 0, faults.join("\n"));
            });
        for (const page of Object.values(windows)) await closePage(page);
    });

test("axe finds no problems in menus and dialogs", async (t) => {
    const opens = {
        palette: ["/", (page) => page.keyboard.press("Control+k")],
        keys: ["/", (page) => page.keyboard.press("?")],
        menu: ["/", (page) => page.getByRole("button", { name: /^Signed in as/ }).click()],
        columns: ["/experiments", (page) => page.getByRole("button", { name: "Choose columns" }).click()],
        facets: ["/experiments", (page) => page.getByRole("button", { name: "Filter by state" }).click()],
        completion: ["/experiments", (page) => page.getByRole("combobox", { name: "Filter experiments" }).fill("st")],
        chosen: ["/experiments", (page) => page.getByRole("checkbox", { name: "Select 1 spirals-wide" }).click()],
        fault: ["/experiments?filter=nmae+%3D+1", (page) => expectVisible(page.getByRole("alert"))],
        fork: ["/experiments/2", (page) => page.getByRole("button", { name: "Fork", exact: true }).click()],
        about: ["/experiments/2", async (page) => {
            await page.getByRole("button", { name: "More actions" }).click();
            await page.getByRole("menuitem", { name: "Name and notes", exact: true }).click();
        }],
        checkpoint: ["/experiments/1?tab=checkpoints", (page) => page.getByRole("button", { name: /^Checkpoint / }).first().click()],
        zoomed: ["/compare?trials=1,2&zoom=100:200", (page) => expectVisible(page.getByRole("button", { name: "Show all", exact: true }))],
        runs: ["/compare", (page) => page.getByRole("button", { name: "Add runs" }).click()],
        model: ["/models", (page) => page.getByRole("button", { name: "New model" }).click()],
    };
    const page = await openSignedIn();
    for (const [name, [path, act]] of Object.entries(opens))
        await t.test(name, async () => {
            await page.goto(path);
            await waitForData(page);
            await act(page);
            await page.waitForTimeout(300);
            const faults = await findProblemsInBothThemes(page);
            assert.equal(faults.length, 0, faults.join("\n"));
        });
    await closePage(page);
});
