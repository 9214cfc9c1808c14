// Runs beside each other.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { done, gone, see, settled, signedIn, until } from "../browser.mjs";

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

/** The file that a click on a line of a chart's menu brings. */
async function exported(page, line) {
    await page.getByRole("button", { name: "Chart of validation_loss: export" }).click();
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("menuitem", { name: line }).click(),
    ]);
    return [saved.suggestedFilename(), readFileSync(await saved.path())];
}

test("a chart becomes a table, a picture, a drawing", async () => {
    const page = await signedIn();
    await page.goto("/compare?trials=1,2");
    await see(page.getByRole("img", { name: /^Chart of validation_loss/ }));
    const [table, text] = await exported(page, "Save as CSV");
    assert.equal(table, "validation_loss.csv");
    const rows = text.toString().trim().split("\r\n").map((row) => row.split(","));
    assert.deepEqual(rows[0], ["line", "step", "value"]);
    assert.deepEqual(rows.slice(1).map(([line, step]) => `${line} ${step}`),
        ["spirals-wide 1", "spirals-deep 2"].flatMap((line) => [0, 100, 200, 300, 400].map((step) => `${line} ${step}`)));
    for (const [, , value] of rows.slice(1)) assert.ok(Number(value) > 0 && Number(value) < 2, value);
    const [drawing, svg] = await exported(page, "Save as SVG");
    assert.equal(drawing, "validation_loss.svg");
    const parts = await page.evaluate((source) => {
        const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
        const lines = [...root.querySelectorAll("[clip-path]")].map((path) => path.getAttribute("d").split("L").length);
        return { name: root.tagName, lines, words: [...root.querySelectorAll("text")].map((one) => one.textContent) };
    }, svg.toString());
    assert.deepEqual([parts.name, parts.lines], ["svg", [5, 5]]);
    for (const word of ["validation_loss", "spirals-wide 1", "spirals-deep 2"]) assert.ok(parts.words.includes(word), word);
    const [picture, png] = await exported(page, "Save as PNG");
    assert.equal(picture, "validation_loss.png");
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    assert.ok(png.readUInt32BE(16) >= 1600 && png.readUInt32BE(20) >= 800, "it is small");
    await done(page);
});

test("a run is the measure of the others; one is hidden, one is taken out", async () => {
    const page = await signedIn();
    await page.goto("/compare?trials=1,2,3");
    const deep = page.getByRole("row", { name: /spirals-deep/ });
    await page.getByRole("button", { name: "Measure against spirals-wide 1" }).click();
    await see(page.getByText("Differences are to spirals-wide 1."));
    assert.match(await deep.innerText(), /−0\.\d+ \(−\d+ %\)/); // it did better
    await page.getByRole("checkbox", { name: "Show spirals-deep 2 in the charts" }).uncheck();
    await see(page.getByRole("img", { name: /^Chart of validation_loss: spirals-wide 1 last [\d.]+, spirals-search 3/ }));
    await page.getByRole("button", { name: "Remove spirals-search 3" }).click();
    await see(page.getByText("2 runs"));
    const { searchParams } = new URL(page.url());
    assert.deepEqual(["trials", "base", "hidden"].map((name) => searchParams.get(name)), ["1,2", "1", "2"]);
    await page.reload();
    await see(page.getByText("Differences are to spirals-wide 1."));
    await page.getByRole("button", { name: "Unpin the baseline" }).first().click();
    await gone(page.getByText("Differences are to"));
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
