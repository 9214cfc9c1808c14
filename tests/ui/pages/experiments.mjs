// The list of experiments.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
    expectCopied, closePage, expectHidden, master, expectVisible, waitForData, openSignedIn, waitUntil,
} from "../browser.mjs";

const experimentNames = (page) =>
    page.locator("tbody tr[data-index]").evaluateAll((rows) => rows.map((row) => row.querySelector("a").textContent));

async function openList(query = "", name = "determined") {
    const page = await openSignedIn(name);
    await page.goto(`/experiments${query}`);
    await expectVisible(page.getByRole("grid", { name: "Experiments" }).getByRole("link"));
    await waitForData(page);
    return page;
}

async function selectRows(page, ...wanted) {
    for (const name of wanted) await page.getByRole("checkbox", { name: `Select ${name}` }).click();
}

test("a filter is applied; an error is marked at its position", async () => {
    const page = await openList();
    assert.equal((await experimentNames(page)).length, 9);
    const filter = page.getByRole("combobox", { name: "Filter experiments" });
    await filter.fill("state = ERROR and nmae ~ x");
    await filter.press("Enter");
    const fault = page.getByRole("alert");
    await expectVisible(fault);
    assert.match(await fault.locator("mark").innerText(), /^nmae/);
    await filter.fill("label = spirals and name ~ deep");
    await filter.press("Escape");
    await filter.press("Enter");
    await expectHidden(fault);
    await waitUntil("one experiment is left", async () => (await experimentNames(page)).join() === "spirals-deep");
    await page.reload(); // the address holds the view
    await waitForData(page);
    assert.deepEqual(await experimentNames(page), ["spirals-deep"]);
    await page.getByRole("button", { name: "Clear" }).click();
    await waitUntil("all experiments are back", async () => (await experimentNames(page)).length === 9);
    await closePage(page);
});

test("the filter input completes names", async () => {
    const page = await openList();
    const filter = page.getByRole("combobox", { name: "Filter experiments" });
    await filter.pressSequentially("hparams.wi");
    await expectVisible(page.getByRole("option", { name: /hparams\.width/ }));
    await filter.press("Tab");
    assert.equal((await filter.inputValue()).trim(), "hparams.width");
    await closePage(page);
});

test("the list is sorted by a column, and columns are chosen", async () => {
    const page = await openList();
    const newestFirst = await experimentNames(page);
    await page.getByRole("button", { name: "Experiment", exact: true }).click();
    const oldestFirst = newestFirst.reverse().join();
    await waitUntil("the oldest experiment is the first", async () => (await experimentNames(page)).join() === oldestFirst);
    await page.getByRole("button", { name: "Choose columns" }).click();
    await page.getByRole("searchbox", { name: "Find a column" }).fill("validation_loss");
    await page.getByRole("checkbox", { name: /validation_loss/ }).first().check();
    await page.keyboard.press("Escape");
    await expectVisible(page.getByRole("columnheader", { name: /validation_loss/ }));
    assert.match(page.url(), /columns=.*validation_loss/);
    await closePage(page);
});

test("filters by menu; a view is saved and deleted", async () => {
    const page = await openList();
    await page.getByRole("button", { name: "Filter by state" }).click();
    await page.getByRole("checkbox", { name: /^Failed/ }).check();
    await page.keyboard.press("Escape");
    await waitUntil("only the failed experiment is left", async () => (await experimentNames(page)).join() === "broken-loader");
    await page.getByRole("button", { name: "Manage views" }).click();
    await page.getByRole("menuitem", { name: "Save this view…" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("Trouble");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("link", { name: "All", exact: true }).click();
    await waitUntil("all experiments are back", async () => (await experimentNames(page)).length === 9);
    await page.getByRole("link", { name: "Trouble" }).click();
    await waitUntil("the view is back", async () => (await experimentNames(page)).join() === "broken-loader");
    await page.getByRole("button", { name: "Manage views" }).click();
    await page.getByRole("menuitem", { name: "Delete Trouble" }).click();
    await expectHidden(page.getByRole("link", { name: "Trouble" }));
    await closePage(page);
});

test("several experiments are labelled, compared, paused and resumed; a baseline is pinned", async () => {
    const page = await openList();
    await selectRows(page, "1 spirals-wide", "2 spirals-deep");
    await expectVisible(page.getByText("2 experiments selected"));
    await page.getByRole("button", { name: "Label…" }).click();
    const label = page.getByRole("textbox", { name: "Label" });
    await label.fill("chosen");
    await label.press("Enter");
    await expectVisible(page.getByText("Labelled 2 experiments"));
    await waitUntil("both have the label", async () => (await page.locator("button.label", { hasText: /^chosen$/ }).count()) === 2);

    await page.getByRole("button", { name: "Compare" }).click();
    await expectVisible(page.getByRole("heading", { name: "Compare" }));
    assert.match(page.url(), /trials=1(,|%2C)2/);
    await page.goBack();
    await waitForData(page);

    await selectRows(page, "8 big-one");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await expectVisible(page.locator("tr", { hasText: "big-one" }).getByText("Paused"));
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await expectVisible(page.locator("tr", { hasText: "big-one" }).getByText("Queued"));
    await page.getByRole("button", { name: "Clear selection" }).click();

    await selectRows(page, "1 spirals-wide");
    await page.getByRole("button", { name: "Pin as baseline" }).click();
    await expectVisible(page.getByText("Baseline:"));
    await page.getByRole("button", { name: "Unpin" }).click();
    await expectHidden(page.getByText("Baseline:"));
    await closePage(page);
});

test("several experiments are moved; commands are copied; the list is saved as CSV", async () => {
    const page = await openList("?columns=state,project");
    await selectRows(page, "1 spirals-wide", "2 spirals-deep");
    await page.getByRole("button", { name: "Copy as a command" }).click();
    await page.getByRole("menuitem", { name: "Copy as muster command: Pause" }).click();
    await expectCopied(page, "muster experiment pause 1 2");
    for (const project of ["Vision / letters", "Uncategorized"]) {
        await page.getByRole("button", { name: "Move…" }).click();
        const dialog = page.getByRole("dialog", { name: "Move to another project" });
        await dialog.getByRole("combobox", { name: "Project" }).selectOption({ label: project });
        await dialog.getByRole("button", { name: "Move" }).click();
        const name = project.split(" / ").at(-1);
        for (const one of ["spirals-wide", "spirals-deep"])
            await expectVisible(page.locator("tr", { hasText: one }).getByText(name, { exact: true }));
    }
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Save the loaded rows as CSV" }).click(),
    ]);
    const lines = readFileSync(await saved.path(), "utf8").trim().split("\r\n");
    assert.equal(lines[0], "name,id,state,project");
    assert.ok(lines.some((line) => /^big-two,9,\w+,Uncategorized$/.test(line)), lines.join("\n"));
    await closePage(page);
});

test("an action that fails for one experiment is reported, and runs for the others", async () => {
    const page = await openList();
    await selectRows(page, "1 spirals-wide", "6 parked");
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    const outcome = page.getByRole("dialog", { name: "Resume" });
    await expectVisible(outcome.getByText("Succeeded for 1 experiment."));
    await expectVisible(outcome.getByText("Failed for 1 experiment:"));
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Clear selection" }).click();
    await selectRows(page, "6 parked");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await expectVisible(page.locator("tr", { hasText: "parked" }).getByText("Paused"));
    await closePage(page);
});

test("changes by others appear without a reload", async () => {
    const page = await openList();
    const other = await openSignedIn();
    const post = (path) => other.request.post(`/api/v1/experiments/8/${path}`, { headers: { Origin: master } });
    const row = page.locator("tr", { hasText: "big-one" });
    assert.equal((await post("pause")).status(), 200);
    await expectVisible(row.getByText("Paused"));
    assert.equal((await post("activate")).status(), 200);
    await expectVisible(row.getByText("Queued"));
    await closePage(other);
    await closePage(page);
});

test("new experiments are counted if they match the filter", async () => {
    const page = await openList("?filter=label+%3D+meanwhile+or+id+%3D+1");
    const other = await openSignedIn();
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
    await waitUntil("they are in the list", async () => (await experimentNames(page)).length === 3);
    await expectHidden(page.getByRole("button", { name: /new$/ }));
    for (const id of made) {
        await other.request.post(`/api/v1/experiments/${id}/kill`, { headers });
        await other.request.delete(`/api/v1/experiments/${id}`, { headers });
    }
    await closePage(other);
    await closePage(page);
});
