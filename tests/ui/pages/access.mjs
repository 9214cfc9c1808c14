// Everybody can use every page: axe finds no fault in either theme, wide and narrow, nor with what opens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, faultsOf, open, see, settled, signedIn } from "../browser.mjs";
import { places } from "../places.mjs";

const windows = { admin: {}, determined: {}, nobody: {} };

async function windowOf(name, theme, width) {
    const key = `${theme} ${width}`;
    const options = { theme, width };
    windows[name ?? "nobody"][key] ??= await (name ? signedIn(name, options) : open(options));
    return windows[name ?? "nobody"][key];
}

for (const theme of ["light", "dark"])
    for (const width of [1440, 390])
        test(`axe in the ${theme} theme, ${width} pixels wide`, async (t) => {
            for (const { name, path, user = "determined" } of places)
                await t.test(name, async () => {
                    const page = await windowOf(user, theme, width);
                    page.faults.length = 0;
                    await page.goto(path);
                    await settled(page);
                    const faults = [...(await faultsOf(page)), ...page.faults];
                    assert.equal(faults.length, 0, faults.join("\n"));
                });
            for (const of of Object.values(windows)) {
                for (const page of Object.values(of)) await done(page);
                for (const key of Object.keys(of)) delete of[key];
            }
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
        runs: ["/compare", (page) => page.getByRole("button", { name: "Add runs" }).click()],
        model: ["/models", (page) => page.getByRole("button", { name: "New model" }).click()],
    };
    for (const theme of ["light", "dark"]) {
        const page = await signedIn("determined", { theme });
        for (const [name, [path, act]] of Object.entries(opens))
            await t.test(`${name}, ${theme}`, async () => {
                await page.goto(path);
                await settled(page);
                await act(page);
                await page.waitForTimeout(300);
                const faults = await faultsOf(page);
                assert.equal(faults.length, 0, faults.join("\n"));
            });
        await done(page);
    }
});
