// Everybody can use every page: axe finds no fault in either theme, wide and narrow, nor with what opens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, faultsOf, open, see, settled, signedIn, turn } from "../browser.mjs";
import { places } from "../places.mjs";

const COLOURS = ["color-contrast", "link-in-text-block"]; // what another theme can break

/** What is wrong with what the page shows, in both themes. */
async function faultsOfBoth(page) {
    const light = await faultsOf(page);
    await turn(page, "dark");
    const dark = await faultsOf(page, COLOURS);
    await turn(page, "light");
    return [...light, ...dark.map((fault) => `dark: ${fault}`), ...page.faults.splice(0)];
}

for (const width of [1440, 390])
    test(`axe in both themes, ${width} pixels wide`, async (t) => {
        const windows = {};
        for (const { name, path, user = "determined" } of places)
            await t.test(name, async () => {
                const page = (windows[user] ??= await (user ? signedIn(user, { width }) : open({ width })));
                await page.goto(path);
                await settled(page);
                const faults = await faultsOfBoth(page);
                assert.equal(faults.length, 0, faults.join("\n"));
            });
        for (const page of Object.values(windows)) await done(page);
    });

test("axe finds no fault with what opens", async (t) => {
    const opens = {
        palette: ["/", (page) => page.keyboard.press("Control+k")],
        keys: ["/", (page) => page.keyboard.press("?")],
        menu: ["/", (page) => page.getByRole("button", { name: /^Signed in as/ }).click()],
        columns: ["/experiments", (page) => page.getByRole("button", { name: "Choose columns" }).click()],
        facets: ["/experiments", (page) => page.getByRole("button", { name: "Narrow by state" }).click()],
        completion: ["/experiments", (page) => page.getByRole("combobox", { name: "Filter of experiments" }).fill("st")],
        chosen: ["/experiments", (page) => page.getByRole("checkbox", { name: "Choose 1 spirals-wide" }).click()],
        fault: ["/experiments?filter=nmae+%3D+1", (page) => see(page.getByRole("alert"))],
        fork: ["/experiments/2", (page) => page.getByRole("button", { name: "Fork", exact: true }).click()],
        about: ["/experiments/2", async (page) => {
            await page.getByRole("button", { name: "More actions" }).click();
            await page.getByRole("menuitem", { name: "Name and notes", exact: true }).click();
        }],
        checkpoint: ["/experiments/1?tab=checkpoints", (page) => page.getByRole("button", { name: /^Checkpoint / }).first().click()],
        zoomed: ["/compare?trials=1,2&zoom=100:200", (page) => see(page.getByRole("button", { name: "Show all", exact: true }))],
        runs: ["/compare", (page) => page.getByRole("button", { name: "Add runs" }).click()],
        model: ["/models", (page) => page.getByRole("button", { name: "New model" }).click()],
    };
    const page = await signedIn();
    for (const [name, [path, act]] of Object.entries(opens))
        await t.test(name, async () => {
            await page.goto(path);
            await settled(page);
            await act(page);
            await page.waitForTimeout(300);
            const faults = await faultsOfBoth(page);
            assert.equal(faults.length, 0, faults.join("\n"));
        });
    await done(page);
});
