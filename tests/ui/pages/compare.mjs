// Runs beside each other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, see, settled, signedIn, until } from "../browser.mjs";

test("curves, what they ended with, and what was set differently", async () => {
    const page = await signedIn();
    await page.goto("/compare");
    await see(page.getByRole("heading", { name: "Nothing to compare yet" }));
    await page.getByRole("button", { name: "Add runs" }).click();
    await page.getByRole("searchbox", { name: "Name, label, owner or number" }).fill("spirals-");
    for (const name of ["spirals-wide 1", "spirals-deep 2"])
        await page.getByRole("button", { name: `Add the best trial of ${name}` }).click();
    await page.keyboard.press("Escape");
    await see(page.getByRole("img", { name: /^Chart of validation_loss: .*spirals-deep/ }));
    await settled(page);
    await page.getByRole("checkbox", { name: "log y" }).check();
    await page.getByRole("slider").fill("0.8");
    await page.getByRole("combobox", { name: "x", exact: true }).selectOption("samples");
    for (const part of ["logy", "smooth=0.8", "x=samples"]) assert.ok(page.url().includes(part), page.url());
    await page.getByRole("tab", { name: "Settings" }).click();
    await see(page.getByRole("rowheader", { name: "trainer.model.hidden" }));
    await page.reload();
    await see(page.getByRole("rowheader", { name: "trainer.model.hidden" }));
    await done(page);
});

test("what is zoomed to stands in the address, for all charts", async () => {
    const page = await signedIn();
    const zoomed = page.getByRole("figure").filter({ has: page.getByRole("button", { name: "Show all", exact: true }) });
    await page.goto("/compare?trials=1,2&zoom=100:200&smooth=0.5");
    await until("two charts show the cut", async () => (await zoomed.count()) >= 2);
    await page.getByRole("img", { name: /^Chart of validation_loss/ }).press("ArrowRight");
    await page.waitForURL(/zoom=125:225/);
    await page.reload();
    await until("it is there again", async () => (await zoomed.count()) >= 2);
    await page.getByRole("combobox", { name: "x", exact: true }).selectOption("elapsed"); // has other units
    await page.waitForURL((url) => url.search.includes("x=elapsed") && !url.search.includes("zoom"));
    await until("all is shown", async () => (await zoomed.count()) === 0);
    await done(page);
});

test("all trials of a search", async () => {
    const page = await signedIn();
    await page.goto("/compare?trials=3,4,5,6,7,8");
    await see(page.getByText("6 runs"));
    await see(page.getByRole("img", { name: /^Chart of validation_loss/ }));
    await settled(page);
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Export values as CSV" }).first().click(),
    ]);
    assert.equal(saved.suggestedFilename(), "compare.csv");
    await done(page);
});
