// One experiment, and one trial.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { done, gone, see, settled, signedIn, until } from "../browser.mjs";

async function at(path, heading) {
    const page = await signedIn();
    await page.goto(path);
    await see(page.getByRole("heading", { name: heading, level: 1 }));
    await settled(page);
    return page;
}

/** How many different colours are drawn on the first chart: an empty one has few. */
const colours = (page) =>
    page.locator(".chart canvas").first().evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    });

/** A click brings a tar.gz that is not empty. */
async function isArchive(page, link) {
    const [saved] = await Promise.all([page.waitForEvent("download"), link.click()]);
    assert.match(saved.suggestedFilename(), /\.tar\.gz$/);
    const bytes = readFileSync(await saved.path());
    assert.equal(bytes.readUInt16BE(0), 0x1f8b);
    assert.ok(bytes.length > 500, `${bytes.length} bytes`);
}

test("the best checkpoint is downloaded from the head of an experiment, and of a trial", async () => {
    const page = await at("/experiments/1", "spirals-wide");
    const link = page.getByRole("link", { name: "Download the best checkpoint" });
    await isArchive(page, link);
    const best = await link.getAttribute("href");
    for (const gone of ["Search", "Hyperparameters"]) // it has one trial
        assert.equal(await page.getByRole("tab", { name: gone }).count(), 0);
    await page.goto("/experiments/1?tab=search");
    await see(page.getByText(/there is nothing to search/));
    await page.goto("/trials/1");
    await see(link);
    assert.equal(await link.getAttribute("href"), best);
    await done(page);
});

test("every tab of an experiment", async () => {
    const page = await at("/experiments/3", "spirals-search");
    await see(page.getByText("Completed").first());
    const tab = async (name, shows) => {
        await page.getByRole("tab", { name }).click();
        await settled(page);
        await see(shows());
    };
    await tab("Metrics", () => page.getByRole("img", { name: /^Chart of .*validation_loss: trial/ }));
    await tab("Trials", () => page.getByRole("grid").getByRole("link", { name: /^\d+$/ }));
    await tab("Hyperparameters", () => page.getByText("learning_rate"));
    await tab("Search", () => page.getByText(/random/i));
    await tab("Checkpoints", () => page.getByRole("grid").getByText(/^\d+$/));
    await tab("Logs", () => page.getByRole("log"));
    await tab("Timeline", () => page.getByText(/submitted|created/i));
    await tab("Configuration", () => page.getByText("max_concurrent_trials"));
    await page.getByRole("tab", { name: "Configuration" }).press("ArrowLeft");
    assert.match(page.url(), /tab=timeline/);
    await done(page);
});

test("an administrator sees in the timeline who paused it", async () => {
    const page = await signedIn("admin");
    await page.goto("/experiments/6?tab=timeline");
    await see(page.getByText(/Paused by determined/));
    await done(page);
});

test("a chart is drawn, zooms and comes back", async () => {
    const page = await at("/trials/1", "Trial 1");
    const plot = page.getByRole("img", { name: /^Chart of loss/ }).first();
    await see(plot);
    await until("lines are drawn", async () => (await colours(page)) > 4);
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.4, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, y, { steps: 4 });
    await page.mouse.up();
    const all = page.getByRole("button", { name: "Show all", exact: true });
    await see(all);
    const zoom = new URL(page.url()).searchParams.get("zoom").split(":").map(Number);
    assert.ok(zoom[0] > 0 && zoom[0] < zoom[1] && zoom[1] < 400, String(zoom));
    await page.reload();
    await see(all);
    await all.first().click();
    await gone(all);
    assert.doesNotMatch(page.url(), /zoom/);
    await plot.focus(); // and by the keyboard
    await page.keyboard.press("+");
    await see(all);
    await page.keyboard.press("0");
    await gone(all);
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Chart of loss: export" }).first().click()
            .then(() => page.getByRole("menuitem", { name: /CSV/ }).click()),
    ]);
    assert.match(saved.suggestedFilename(), /\.csv$/);
    await done(page);
});

test("a log is text, whatever is in it; it is searched, and leads to the error", async () => {
    const page = await at("/experiments/4", "broken-loader");
    await see(page.getByText(/exit|code 3/i));
    await see(page.locator(".headline .last-words"));
    await page.getByRole("link", { name: "See its log" }).click();
    await see(page.getByRole("heading", { name: "Trial", level: 1 }));
    const log = page.getByRole("log");
    await see(log.getByText("the list names images/0042.png"));
    const search = page.getByRole("searchbox", { name: "Search the log" });
    await search.fill("taken over");
    await see(log.getByText("<script>document.title = 'taken over'</script><img src=x"));
    assert.equal(await log.locator("script, img, [onerror]").count(), 0);
    assert.doesNotMatch(await page.title(), /taken over/);
    await search.fill("and bold");
    await see(log.getByText(/red .*and bold/));
    assert.equal(await log.getByText("file 7").count(), 0, "other lines are hidden");
    await search.fill("");
    await see(log.getByText("looked at file 119"));
    await page.getByRole("button", { name: "Last error" }).click();
    await see(page.locator(".log-at"));
    assert.match(await page.locator(".log-at").innerText(), /0042|ERROR/);
    await done(page);
});

test("every tab of a trial; a checkpoint is downloaded", async () => {
    const page = await at("/trials/2", "Trial 2");
    await page.getByRole("tab", { name: "Starts and ranks" }).click();
    await see(page.getByText(/agent-\d/));
    await page.getByRole("tab", { name: "Hyperparameters" }).click();
    await see(page.getByText("learning_rate"));
    await page.getByRole("tab", { name: "Checkpoints" }).click();
    const rows = page.getByRole("grid", { name: "Checkpoints" });
    await isArchive(page, rows.getByRole("link", { name: /^Download checkpoint/ }).first());
    await done(page);
});

test("what is paused and has not left its slots yet is pausing", async () => {
    const page = await signedIn();
    await page.route(/\/api\/v1\/experiments\/2$/, async (route) => {
        const answer = await (await route.fetch()).json();
        Object.assign(answer.experiment, { state: "STATE_PAUSED", liveAllocations: 1 });
        await route.fulfill({ json: answer });
    });
    await page.goto("/experiments/2");
    await see(page.locator(".headline").getByText("Pausing"));
    await done(page);
});

test("pausing asks nothing, killing asks first; what runs is seen to go on", async () => {
    const page = await at("/experiments/5", "night-run");
    const step = () => page.locator(".chart .legend-value").first().innerText();
    const before = await step();
    await until("the chart has moved", async () => (await step()) !== before, 30);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Kill", exact: true }).click();
    const asked = page.getByRole("dialog", { name: /Kill/ });
    await see(asked.getByText(/lost/));
    await asked.getByRole("button", { name: "Leave it" }).click();
    await gone(asked);
    await see(page.getByText("Running").first());
    await done(page);
});

test("a fork is validated as one types", async () => {
    const page = await at("/experiments/2", "spirals-deep");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    const dialog = page.getByRole("dialog");
    const text = dialog.getByRole("textbox", { name: /Configuration|experiment file/i });
    const given = await text.inputValue();
    await text.fill(given.replace(/steps: \d+/, "stepps: 10"));
    await see(dialog.getByText(/stepps/).last());
    await page.keyboard.press("Escape");
    await done(page);
});
