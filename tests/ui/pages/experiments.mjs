// The list of experiments.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { copied, done, gone, master, see, settled, signedIn, until } from "../browser.mjs";

const names = (page) =>
    page.locator("tbody tr[data-index]").evaluateAll((rows) => rows.map((row) => row.querySelector("a").textContent));

async function list(query = "", name = "determined") {
    const page = await signedIn(name);
    await page.goto(`/experiments${query}`);
    await see(page.getByRole("grid", { name: "Experiments" }).getByRole("link"));
    await settled(page);
    return page;
}

async function choose(page, ...wanted) {
    for (const name of wanted) await page.getByRole("checkbox", { name: `Choose ${name}` }).click();
}

test("a filter narrows; a mistake is shown at its place", async () => {
    const page = await list();
    assert.equal((await names(page)).length, 9);
    const filter = page.getByRole("combobox", { name: "Filter of experiments" });
    await filter.fill("state = ERROR and nmae ~ x");
    await filter.press("Enter");
    const fault = page.getByRole("alert");
    await see(fault);
    assert.match(await fault.locator("mark").innerText(), /^nmae/);
    await filter.fill("label = spirals and name ~ deep");
    await filter.press("Escape");
    await filter.press("Enter");
    await gone(fault);
    await until("one is left", async () => (await names(page)).join() === "spirals-deep");
    await page.reload(); // the address keeps the view
    await settled(page);
    assert.deepEqual(await names(page), ["spirals-deep"]);
    await page.getByRole("button", { name: "Clear" }).click();
    await until("all are back", async () => (await names(page)).length === 9);
    await done(page);
});

test("what may follow is offered", async () => {
    const page = await list();
    const filter = page.getByRole("combobox", { name: "Filter of experiments" });
    await filter.pressSequentially("hparams.wi");
    await see(page.getByRole("option", { name: /hparams\.width/ }));
    await filter.press("Tab");
    assert.equal((await filter.inputValue()).trim(), "hparams.width");
    await done(page);
});

test("the order goes by a head, columns are of one's choice", async () => {
    const page = await list();
    const newestFirst = await names(page);
    await page.getByRole("button", { name: "Experiment", exact: true }).click();
    const oldestFirst = newestFirst.reverse().join();
    await until("the oldest is the first", async () => (await names(page)).join() === oldestFirst);
    await page.getByRole("button", { name: "Choose columns" }).click();
    await page.getByRole("searchbox", { name: "Find a column" }).fill("validation_loss");
    await page.getByRole("checkbox", { name: /validation_loss/ }).first().check();
    await page.keyboard.press("Escape");
    await see(page.getByRole("columnheader", { name: /validation_loss/ }));
    assert.match(page.url(), /columns=.*validation_loss/);
    await done(page);
});

test("facets, and a view that is kept and forgotten", async () => {
    const page = await list();
    await page.getByRole("button", { name: "Narrow by state" }).click();
    await page.getByRole("checkbox", { name: /^Failed/ }).check();
    await page.keyboard.press("Escape");
    await until("the failed one is left", async () => (await names(page)).join() === "broken-loader");
    await page.getByRole("button", { name: "Keep or forget views" }).click();
    await page.getByRole("menuitem", { name: "Keep this view…" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("Trouble");
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("link", { name: "All", exact: true }).click();
    await until("all are back", async () => (await names(page)).length === 9);
    await page.getByRole("link", { name: "Trouble" }).click();
    await until("the view is back", async () => (await names(page)).join() === "broken-loader");
    await page.getByRole("button", { name: "Keep or forget views" }).click();
    await page.getByRole("menuitem", { name: "Forget Trouble" }).click();
    await gone(page.getByRole("link", { name: "Trouble" }));
    await done(page);
});

test("several are chosen: labelled, activated and paused, compared; a baseline is pinned", async () => {
    const page = await list();
    await choose(page, "1 spirals-wide", "2 spirals-deep");
    await see(page.getByText("2 experiments chosen"));
    await page.getByRole("button", { name: "Label…" }).click();
    const label = page.getByRole("textbox", { name: "Label" });
    await label.fill("chosen");
    await label.press("Enter");
    await see(page.getByText("Labelled 2 experiments"));
    await until("both have it", async () => (await page.locator("button.label", { hasText: /^chosen$/ }).count()) === 2);

    await page.getByRole("button", { name: "Compare" }).click();
    await see(page.getByRole("heading", { name: "Compare" }));
    assert.match(page.url(), /trials=1(,|%2C)2/);
    await page.goBack();
    await settled(page);

    await choose(page, "8 big-one");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await see(page.locator("tr", { hasText: "big-one" }).getByText("Paused"));
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await see(page.locator("tr", { hasText: "big-one" }).getByText("Queued"));
    await page.getByRole("button", { name: "Choose none" }).click();

    await choose(page, "1 spirals-wide");
    await page.getByRole("button", { name: "Pin as baseline" }).click();
    await see(page.getByText("Baseline:"));
    await page.getByRole("button", { name: "Unpin" }).click();
    await gone(page.getByText("Baseline:"));
    await done(page);
});

test("several are moved and copied as a command; the list becomes a table", async () => {
    const page = await list("?columns=state,project");
    await choose(page, "1 spirals-wide", "2 spirals-deep");
    await page.getByRole("button", { name: "Copy as a command" }).click();
    await page.getByRole("menuitem", { name: "Copy as muster command: Pause" }).click();
    await copied(page, "muster experiment pause 1 2");
    for (const project of ["Vision / letters", "Uncategorized"]) {
        await page.getByRole("button", { name: "Move…" }).click();
        const dialog = page.getByRole("dialog", { name: "Move to another project" });
        await dialog.getByRole("combobox", { name: "Project" }).selectOption({ label: project });
        await dialog.getByRole("button", { name: "Move" }).click();
        const name = project.split(" / ").at(-1);
        for (const one of ["spirals-wide", "spirals-deep"])
            await see(page.locator("tr", { hasText: one }).getByText(name, { exact: true }));
    }
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Save the rows that are here as CSV" }).click(),
    ]);
    const lines = readFileSync(await saved.path(), "utf8").trim().split("\r\n");
    assert.equal(lines[0], "name,id,state,project");
    assert.ok(lines.some((line) => /^big-two,9,\w+,Uncategorized$/.test(line)), lines.join("\n"));
    await done(page);
});

test("what cannot be done with one is told, and the others are done", async () => {
    const page = await list();
    await choose(page, "1 spirals-wide", "6 parked");
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    const outcome = page.getByRole("dialog", { name: "Resume" });
    await see(outcome.getByText("Done with 1 experiment."));
    await see(outcome.getByText("Not with 1 experiment:"));
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Choose none" }).click();
    await choose(page, "6 parked");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await see(page.locator("tr", { hasText: "parked" }).getByText("Paused"));
    await done(page);
});

test("what others do is seen without loading anew", async () => {
    const page = await list();
    const other = await signedIn();
    const post = (path) => other.request.post(`/api/v1/experiments/8/${path}`, { headers: { Origin: master } });
    const row = page.locator("tr", { hasText: "big-one" });
    assert.equal((await post("pause")).status(), 200);
    await see(row.getByText("Paused"));
    assert.equal((await post("activate")).status(), 200);
    await see(row.getByText("Queued"));
    await done(other);
    await done(page);
});

test("what was submitted meanwhile is told of, if it belongs in the list", async () => {
    const page = await list("?filter=label+%3D+meanwhile+or+id+%3D+1");
    const other = await signedIn();
    const headers = { Origin: master };
    const made = [];
    const submit = async (label) => {
        const config = `{name: ${label}, labels: [${label}], entrypoint: "true", searcher: {name: single, metric: loss}}`;
        const data = { config, activate: false, modelDefinition: [] };
        const answer = await other.request.post("/api/v1/experiments", { data, headers });
        assert.equal(answer.status(), 200, await answer.text());
        made.push((await answer.json()).experiment.id);
    };
    await submit("elsewhere");
    await submit("meanwhile");
    await submit("meanwhile");
    await page.getByRole("button", { name: "2 new" }).click();
    await until("they stand in the list", async () => (await names(page)).length === 3);
    await gone(page.getByRole("button", { name: /new$/ }));
    for (const id of made) {
        await other.request.post(`/api/v1/experiments/${id}/kill`, { headers });
        await other.request.delete(`/api/v1/experiments/${id}`, { headers });
    }
    await done(other);
    await done(page);
});
