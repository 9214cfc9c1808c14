// The pages of an experiment and of a trial.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { closePage, expectHidden, expectVisible, waitForData, openSignedIn, waitUntil } from "../browser.mjs";

async function openAt(path, heading) {
    const page = await openSignedIn();
    await page.goto(path);
    await expectVisible(page.getByRole("heading", { name: heading, level: 1 }));
    await waitForData(page);
    return page;
}

/** The number of colours on the first chart. An empty chart has few. */
const countColours = (page) =>
    page.locator(".chart canvas").first().evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    });

/** Checks that a link downloads a tar.gz that is not empty. */
async function expectArchive(page, link) {
    const [saved] = await Promise.all([page.waitForEvent("download"), link.click()]);
    assert.match(saved.suggestedFilename(), /\.tar\.gz$/);
    const bytes = readFileSync(await saved.path());
    assert.equal(bytes.readUInt16BE(0), 0x1f8b);
    assert.ok(bytes.length > 500, `${bytes.length} bytes`);
}

test("the best checkpoint is downloaded from the headline of an experiment and of a trial", async () => {
    const page = await openAt("/experiments/1", "spirals-wide");
    const link = page.getByRole("link", { name: "Download the best checkpoint" });
    await expectArchive(page, link);
    const best = await link.getAttribute("href");
    for (const gone of ["Search", "Hyperparameters"]) // hidden for a single trial
        assert.equal(await page.getByRole("tab", { name: gone }).count(), 0);
    await page.goto("/experiments/1?tab=search");
    await expectVisible(page.getByText(/there is no search/));
    await page.goto("/trials/1");
    await expectVisible(link);
    assert.equal(await link.getAttribute("href"), best);
    await closePage(page);
});

test("every tab of an experiment", async () => {
    const page = await openAt("/experiments/3", "spirals-search");
    await expectVisible(page.getByText("Completed").first());
    const tab = async (name, shows) => {
        await page.getByRole("tab", { name }).click();
        await waitForData(page);
        await expectVisible(shows());
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
    await closePage(page);
});

test("the timeline shows administrators who paused the experiment", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/experiments/6?tab=timeline");
    await expectVisible(page.getByText(/Paused by determined/));
    await closePage(page);
});

test("a chart is drawn, zoomed in and out, and exported", async () => {
    const page = await openAt("/trials/1", "Trial 1");
    const plot = page.getByRole("img", { name: /^Chart of training loss/ }).first();
    await expectVisible(plot);
    await waitUntil("lines are drawn", async () => (await countColours(page)) > 4);
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.4, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, y, { steps: 4 });
    await page.mouse.up();
    const all = page.getByRole("button", { name: "Show all", exact: true });
    await expectVisible(all);
    const zoom = new URL(page.url()).searchParams.get("zoom").split(":").map(Number);
    assert.ok(zoom[0] > 0 && zoom[0] < zoom[1] && zoom[1] < 400, String(zoom));
    await page.reload();
    await expectVisible(all);
    await all.first().click();
    await expectHidden(all);
    assert.doesNotMatch(page.url(), /zoom/);
    await plot.focus(); // by keyboard
    await page.keyboard.press("+");
    await expectVisible(all);
    await page.keyboard.press("0");
    await expectHidden(all);
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Export chart of training loss" }).first().click()
            .then(() => page.getByRole("menuitem", { name: /CSV/ }).click()),
    ]);
    assert.match(saved.suggestedFilename(), /\.csv$/);
    await closePage(page);
});

test("a log is shown as text, searched, and jumps to the error", async () => {
    const page = await openAt("/experiments/4", "broken-loader");
    await expectVisible(page.getByText(/exit|code 3/i));
    await expectVisible(page.locator(".headline .last-log-lines"));
    await page.getByRole("link", { name: "Show the log" }).click();
    await expectVisible(page.getByRole("heading", { name: "Trial", level: 1 }));
    const log = page.getByRole("log");
    await expectVisible(log.getByText("the list names images/0042.png"));
    const search = page.getByRole("searchbox", { name: "Search the log" });
    await search.fill("taken over");
    await expectVisible(log.getByText("<script>document.title = 'taken over'</script><img src=x"));
    assert.equal(await log.locator("script, img, [onerror]").count(), 0);
    assert.doesNotMatch(await page.title(), /taken over/);
    await search.fill("and bold");
    await expectVisible(log.getByText(/red .*and bold/));
    assert.equal(await log.getByText("file 7").count(), 0, "other lines are hidden");
    await search.fill("");
    await expectVisible(log.getByText("looked at file 119"));
    await page.getByRole("button", { name: "Last error" }).click();
    await expectVisible(page.locator(".log-target"));
    assert.match(await page.locator(".log-target").innerText(), /0042|ERROR/);
    await closePage(page);
});

test("every tab of a trial; a checkpoint is downloaded", async () => {
    const page = await openAt("/trials/2", "Trial 2");
    await page.getByRole("tab", { name: "Starts and ranks" }).click();
    await expectVisible(page.getByText(/agent-\d/));
    await page.getByRole("tab", { name: "Hyperparameters" }).click();
    await expectVisible(page.getByText("learning_rate"));
    await page.getByRole("tab", { name: "Checkpoints" }).click();
    const rows = page.getByRole("grid", { name: "Checkpoints" });
    await expectArchive(page, rows.getByRole("link", { name: /^Download checkpoint/ }).first());
    await closePage(page);
});

test("one slider moves the images, histograms, tables and texts of a trial", async () => {
    const page = await openAt("/trials/1?tab=media", "Trial 1");
    const image = page.getByRole("img", { name: /^decisions at step/ });
    await expectVisible(image);
    assert.equal(await image.getAttribute("alt"), "decisions at step 380");
    assert.equal(await image.evaluate((one) => one.decode().then(() => one.naturalWidth)), 40);
    await expectVisible(page.getByRole("img", { name: /^Values from .* over the steps/ }));
    await expectVisible(page.getByRole("cell", { name: "true" }).first());
    await expectVisible(page.getByText("<b>not</b> separated")); // markup is text
    await page.getByRole("slider", { name: "Step of weights/layer 1" }).fill("6");
    await expectVisible(page.getByRole("img", { name: "decisions at step 120" }));
    await expectVisible(page.getByRole("img", { name: "weights/layer 1 at step 120" }));
    await expectVisible(page.getByText("step 100").last()); // the newest note at or before step 120
    assert.match(page.url(), /step=120/);
    await page.reload();
    await expectVisible(page.getByRole("img", { name: "decisions at step 120" }));
    await page.getByRole("button", { name: "Show the newest" }).click();
    await expectVisible(page.getByRole("img", { name: "decisions at step 380" }));
    await page.getByRole("searchbox", { name: "Find by name" }).fill("note");
    await expectHidden(page.getByRole("img", { name: /^decisions/ }));
    await closePage(page);
});

test("a trial without media says how a program reports them", async () => {
    const page = await openAt("/trials/2?tab=media", "Trial 2");
    await expectVisible(page.getByText("run.image(step, name, value)"));
    await closePage(page);
});

test("a paused experiment that still holds slots is pausing", async () => {
    const page = await openSignedIn();
    await page.route(/\/api\/v1\/experiments\/2$/, async (route) => {
        const answer = await (await route.fetch()).json();
        Object.assign(answer.experiment, { state: "STATE_PAUSED", liveAllocations: 1 });
        await route.fulfill({ json: answer });
    });
    await page.goto("/experiments/2");
    await expectVisible(page.locator(".headline").getByText("Pausing"));
    await closePage(page);
});

test("killing asks for confirmation, and a running experiment updates live", async () => {
    const page = await openAt("/experiments/5", "night-run");
    const step = () => page.locator(".chart .legend-value").first().innerText();
    const before = await step();
    await waitUntil("the chart has moved", async () => (await step()) !== before, 30);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Kill", exact: true }).click();
    const asked = page.getByRole("dialog", { name: /Kill/ });
    await expectVisible(asked.getByText(/lost/));
    await asked.getByRole("button", { name: "Go back" }).click();
    await expectHidden(asked);
    await expectVisible(page.getByText("Running").first());
    await closePage(page);
});

test("a fork is validated while the user types", async () => {
    const page = await openAt("/experiments/2", "spirals-deep");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    const dialog = page.getByRole("dialog");
    const text = dialog.getByRole("textbox", { name: /Configuration|experiment file/i });
    const given = await text.inputValue();
    await text.fill(given.replace(/steps: \d+/, "stepps: 10"));
    await expectVisible(dialog.getByText(/stepps/).last());
    await page.keyboard.press("Escape");
    await closePage(page);
});
