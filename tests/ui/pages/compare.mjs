// The comparison of runs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { closePage, expectHidden, expectVisible, waitForData, openSignedIn, waitUntil } from "../browser.mjs";

test("charts and settings of two runs", async () => {
    const page = await openSignedIn();
    await page.goto("/compare");
    await expectVisible(page.getByRole("heading", { name: "Nothing to compare yet" }));
    await page.getByRole("button", { name: "Add runs" }).click();
    await page.getByRole("searchbox", { name: "Name, label, owner or id" }).fill("spirals-");
    for (const name of ["spirals-wide 1", "spirals-deep 2"])
        await page.getByRole("button", { name: `Add the best trial of ${name}` }).click();
    await page.keyboard.press("Escape");
    await expectVisible(page.getByRole("img", { name: /^Chart of validation_loss: .*spirals-deep/ }));
    await waitForData(page);
    await page.getByRole("checkbox", { name: "log y" }).check();
    await page.getByRole("slider").fill("0.8");
    await page.getByRole("combobox", { name: "x", exact: true }).selectOption("samples");
    for (const part of ["logy", "smooth=0.8", "x=samples"]) assert.ok(page.url().includes(part), page.url());
    await page.getByRole("tab", { name: "Settings" }).click();
    await expectVisible(page.getByRole("rowheader", { name: "trainer.model.hidden" }));
    await page.reload();
    await expectVisible(page.getByRole("rowheader", { name: "trainer.model.hidden" }));
    await closePage(page);
});

test("the zoom of all charts is in the address", async () => {
    const page = await openSignedIn();
    const zoomed = page.getByRole("figure").filter({ has: page.getByRole("button", { name: "Show all", exact: true }) });
    await page.goto("/compare?trials=1,2&zoom=100:200&smooth=0.5");
    await waitUntil("two charts are zoomed", async () => (await zoomed.count()) >= 2);
    await page.getByRole("img", { name: /^Chart of validation_loss/ }).press("ArrowRight");
    await page.waitForURL(/zoom=125:225/);
    await page.reload();
    await waitUntil("they are zoomed again", async () => (await zoomed.count()) >= 2);
    await page.getByRole("combobox", { name: "x", exact: true }).selectOption("elapsed"); // other units reset the zoom
    await page.waitForURL((url) => url.search.includes("x=elapsed") && !url.search.includes("zoom"));
    await waitUntil("no chart is zoomed", async () => (await zoomed.count()) === 0);
    await closePage(page);
});

/** The file that an item of a chart's menu saves. */
async function exportChart(page, line) {
    await page.getByRole("button", { name: "Export chart of validation_loss" }).click();
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("menuitem", { name: line }).click(),
    ]);
    return [saved.suggestedFilename(), readFileSync(await saved.path())];
}

test("a chart is exported as CSV, SVG and PNG", async () => {
    const page = await openSignedIn();
    await page.goto("/compare?trials=1,2");
    await expectVisible(page.getByRole("img", { name: /^Chart of validation_loss/ }));
    const [table, text] = await exportChart(page, "Save as CSV");
    assert.equal(table, "validation_loss.csv");
    const rows = text.toString().trim().split("\r\n").map((row) => row.split(","));
    assert.deepEqual(rows[0], ["line", "step", "value"]);
    assert.deepEqual(rows.slice(1).map(([line, step]) => `${line} ${step}`),
        ["spirals-wide 1", "spirals-deep 2"].flatMap((line) => [0, 100, 200, 300, 400].map((step) => `${line} ${step}`)));
    for (const [, , value] of rows.slice(1)) assert.ok(Number(value) > 0 && Number(value) < 2, value);
    const [drawing, svg] = await exportChart(page, "Save as SVG");
    assert.equal(drawing, "validation_loss.svg");
    const parts = await page.evaluate((source) => {
        const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
        const lines = [...root.querySelectorAll("[clip-path]")].map((path) => path.getAttribute("d").split("L").length);
        return { name: root.tagName, lines, words: [...root.querySelectorAll("text")].map((one) => one.textContent) };
    }, svg.toString());
    assert.deepEqual([parts.name, parts.lines], ["svg", [5, 5]]);
    for (const word of ["validation_loss", "spirals-wide 1", "spirals-deep 2"]) assert.ok(parts.words.includes(word), word);
    const [picture, png] = await exportChart(page, "Save as PNG");
    assert.equal(picture, "validation_loss.png");
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    assert.ok(png.readUInt32BE(16) >= 1600 && png.readUInt32BE(20) >= 800, "the picture is too small");
    await closePage(page);
});

test("a run is the baseline; one run is hidden, one removed", async () => {
    const page = await openSignedIn();
    await page.goto("/compare?trials=1,2,3");
    const deep = page.getByRole("row", { name: /spirals-deep/ });
    await page.getByRole("button", { name: "Use spirals-wide 1 as baseline" }).click();
    await expectVisible(page.getByText("Differences are relative to spirals-wide 1."));
    assert.match(await deep.innerText(), /−0\.\d+ \(−\d+ %\)/); // its loss is smaller
    await page.getByRole("checkbox", { name: "Show spirals-deep 2 in the charts" }).uncheck();
    await expectVisible(page.getByRole("img", { name: /^Chart of validation_loss: spirals-wide 1 last [\d.]+, spirals-search 3/ }));
    await page.getByRole("button", { name: "Remove spirals-search 3" }).click();
    await expectVisible(page.getByText("2 runs"));
    const { searchParams } = new URL(page.url());
    assert.deepEqual(["trials", "base", "hidden"].map((name) => searchParams.get(name)), ["1,2", "1", "2"]);
    await page.reload();
    await expectVisible(page.getByText("Differences are relative to spirals-wide 1."));
    await page.getByRole("button", { name: "Unpin the baseline" }).first().click();
    await expectHidden(page.getByText("Differences are relative to"));
    await closePage(page);
});

test("all trials of a search", async () => {
    const page = await openSignedIn();
    await page.goto("/compare?trials=3,4,5,6,7,8");
    await expectVisible(page.getByText("6 runs"));
    await expectVisible(page.getByRole("img", { name: /^Chart of validation_loss/ }));
    await waitForData(page);
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Export values as CSV" }).first().click(),
    ]);
    assert.equal(saved.suggestedFilename(), "compare.csv");
    await closePage(page);
});
