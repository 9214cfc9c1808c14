// Changes to experiments and their checkpoints. Each test undoes its changes.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
    expectCopied, closePage, expectHidden, master, expectVisible, waitForData, openSignedIn, waitUntil,
} from "../browser.mjs";

async function openExperiment(id, name) {
    const page = await openSignedIn();
    await page.goto(`/experiments/${id}`);
    await expectVisible(page.getByRole("heading", { name, level: 1 }));
    await waitForData(page);
    return page;
}

/** Opens the dialog of a menu item. */
async function openDialog(page, line, title) {
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: line, exact: true }).click();
    const dialog = page.getByRole("dialog", { name: title });
    await expectVisible(dialog);
    return dialog;
}

test("name, description and notes are edited; the dialog shows errors", async () => {
    const page = await openExperiment(6, "parked");
    const dialog = await openDialog(page, "Name and notes", "Name and notes");
    const name = dialog.getByRole("textbox", { name: "Name", exact: true });
    await name.fill("x".repeat(2000));
    await dialog.getByRole("button", { name: "Save" }).click();
    await expectVisible(dialog.getByRole("alert"));
    await name.fill("parked");
    await dialog.getByRole("textbox", { name: "Description" }).fill("for later");
    await dialog.getByRole("textbox", { name: "Notes" }).fill("first line\nsecond line");
    await dialog.getByRole("button", { name: "Copy as a command" }).click();
    await page.getByRole("menuitem", { name: /muster command/ }).click();
    await expectCopied(
        page,
        "muster experiment set 6 --name parked --description 'for later' --notes 'first line\nsecond line'",
    );
    await expectVisible(page.getByText(/^Copied/)); // above the dialog
    await dialog.getByRole("button", { name: "Save" }).click();
    await expectHidden(dialog);
    const description = page.locator(".headline").getByText("for later");
    await expectVisible(description);
    await page.getByText("Notes", { exact: true }).click();
    await expectVisible(page.getByText("second line"));
    await page.getByRole("button", { name: "Edit" }).click();
    for (const field of ["Description", "Notes"]) await dialog.getByRole("textbox", { name: field }).fill("");
    await dialog.getByRole("button", { name: "Save" }).click();
    await expectHidden(description);
    await closePage(page);
});

test("labels are set and link to the experiments with them", async () => {
    const page = await openExperiment(6, "parked");
    const labels = async (text) => {
        const dialog = await openDialog(page, "Labels", "Labels");
        await dialog.getByRole("textbox").fill(text);
        await dialog.getByRole("textbox").press("Enter");
        await expectHidden(dialog);
    };
    await labels("long, for sunday, long");
    await page.locator(".headline").getByRole("link", { name: "for sunday" }).click();
    await expectVisible(page.getByRole("link", { name: "parked" }));
    await waitUntil("it is the only experiment", async () => (await page.locator("tbody tr[data-index]").count()) === 1);
    await page.goBack();
    await waitForData(page);
    await labels("long");
    await expectHidden(page.getByRole("link", { name: "for sunday" }));
    await closePage(page);
});

test("the slots of each trial are changed; the dialog shows errors", async () => {
    const page = await openExperiment(6, "parked");
    const dialog = await openDialog(page, "Resize", "Slots of each trial");
    const slots = dialog.getByRole("spinbutton", { name: "Slots", exact: true });
    const resize = dialog.getByRole("button", { name: "Resize" });
    assert.equal(await slots.inputValue(), "1");
    await slots.fill("0");
    await resize.click();
    await expectVisible(dialog.getByRole("alert").getByText(/slotsPerTrial: not a number from 1/));
    await slots.fill("3");
    await dialog.getByRole("spinbutton", { name: /^At least/ }).fill("2");
    await dialog.getByRole("button", { name: "Copy as a command" }).click();
    await page.getByRole("menuitem", { name: /muster command/ }).click();
    await expectCopied(page, "muster experiment resize 6 --slots 3 --min-slots 2");
    await resize.click();
    await expectHidden(dialog);
    const { experiment } = await (await page.request.get("/api/v1/experiments/6")).json();
    assert.equal(experiment.config.resources.slots_per_trial, 3);
    assert.equal(experiment.config.resources.min_slots, 2);
    await openDialog(page, "Resize", "Slots of each trial");
    await slots.fill("1");
    await dialog.getByRole("spinbutton", { name: /^At least/ }).fill("");
    await resize.click();
    await expectHidden(dialog);
    await closePage(page);
});

test("an experiment moves to another project and back, and is archived and unarchived", async () => {
    const page = await openExperiment(2, "spirals-deep");
    const crumbs = page.getByRole("navigation", { name: "Breadcrumbs" });
    for (const project of ["Vision / letters", "Uncategorized"]) {
        const dialog = await openDialog(page, "Move", "Move to another project");
        await dialog.getByRole("combobox", { name: "Project" }).selectOption({ label: project });
        await dialog.getByRole("button", { name: "Move" }).click();
        await expectHidden(dialog);
        await expectVisible(crumbs.getByRole("link", { name: project }));
    }
    for (const verb of ["Archive", "Unarchive"]) {
        await page.getByRole("button", { name: "More actions" }).click();
        await page.getByRole("menuitem", { name: verb, exact: true }).click();
        const word = page.locator(".headline").getByText("archived", { exact: true });
        await (verb === "Archive" ? expectVisible(word) : expectHidden(word));
    }
    await closePage(page);
});

test("a checkpoint is registered as a model version, and deleted", async () => {
    const page = await openExperiment(3, "spirals-search");
    const best = page.getByRole("link", { name: "Download the best checkpoint" });
    const before = await best.getAttribute("href");
    await page.getByRole("tab", { name: /^Checkpoints/ }).click();
    const row = page.getByRole("row").filter({ hasText: "★ best" });
    const menu = async (line) => {
        await row.getByRole("button", { name: /^Checkpoint/ }).click();
        await page.getByRole("menuitem", { name: line, exact: true }).click();
    };
    await menu("Show files");
    const files = page.getByRole("dialog", { name: /^Files of checkpoint/ });
    await expectVisible(files.getByText("weights.safetensors"));
    await page.keyboard.press("Escape");
    await menu("Copy the muster command to download");
    const uuid = before.split("/").at(-1);
    await expectCopied(page, `muster checkpoint download ${uuid} --to ${uuid.slice(0, 8)}`);

    await menu("Register as a model");
    const form = page.getByRole("dialog", { name: "Register as a model version" });
    await form.getByRole("combobox", { name: /^Model/ }).fill("swirls");
    await form.getByRole("textbox", { name: "Comment" }).fill("of the search");
    await form.getByRole("button", { name: "Register" }).click();
    await expectVisible(page.getByText("Registered as version 1 of swirls"));
    await menu("Delete"); // refused, because it is a model version
    const asked = page.getByRole("dialog", { name: "Delete?" });
    await asked.getByRole("button", { name: "Delete" }).click();
    await expectVisible(page.getByText(/swirls/).last());
    assert.equal(await best.getAttribute("href"), before);

    const answer = await page.request.delete("/api/v1/models/swirls", { headers: { Origin: master } });
    assert.equal(answer.status(), 200, await answer.text());
    await menu("Delete");
    await asked.getByRole("button", { name: "Delete" }).click();
    await waitUntil("another checkpoint is the best", async () => (await best.getAttribute("href")) !== before);
    await expectHidden(page.getByRole("row").filter({ hasText: uuid.slice(0, 8) }));
    await page.getByRole("checkbox", { name: "Show deleted" }).check();
    await expectVisible(page.getByRole("row").filter({ hasText: uuid.slice(0, 8) }).getByText("Deleted"));
    await closePage(page);
});

test("a fork trains, continues for longer, and is deleted", async () => {
    const page = await openExperiment(2, "spirals-deep");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    const fork = page.getByRole("dialog", { name: "Fork experiment 2" });
    const text = fork.getByRole("textbox", { name: "Configuration" });
    assert.ok(await text.evaluate((it) => it === document.activeElement), "the editor has the focus");
    const given = await text.inputValue();
    await text.fill("name: lost");
    await page.keyboard.press("Escape");
    const lost = page.getByRole("dialog", { name: "Discard your changes?" });
    await lost.getByRole("button", { name: "Go back" }).click();
    await expectHidden(lost);
    assert.equal(await text.inputValue(), "name: lost");
    await text.fill(given.replace("name: spirals-deep", "name: deeper").replace(/steps: \d+/, "steps: 20"));
    await fork.getByRole("checkbox", { name: "Show changes" }).check();
    await expectVisible(fork.getByText(/name: spirals-deep/));
    await fork.getByRole("button", { name: "Submit", exact: true }).click();
    await expectVisible(page.getByRole("heading", { name: "deeper", level: 1 }));
    const id = page.url().split("/").at(-1);
    const headline = page.locator(".headline");
    await expectVisible(headline.getByRole("link", { name: "2", exact: true })); // forked from
    await expectVisible(headline.getByText("Completed"));
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    const more = page.getByRole("dialog", { name: `Continue experiment ${id}` });
    await more.getByRole("textbox", { name: "Configuration" }).fill("trainer: {stepz: 40}");
    await more.getByRole("button", { name: "Continue", exact: true }).click();
    await expectVisible(more.getByRole("alert").getByText(/^trainer\.stepz: unknown key; did you mean "steps"/));
    await more.getByRole("textbox", { name: "Configuration" }).fill("trainer: {steps: 40}");
    await more.getByRole("button", { name: "Continue", exact: true }).click();
    await expectHidden(more);
    await expectVisible(headline.getByText("step 40,"));
    await expectVisible(headline.getByText("Completed"));
    await (await openDialog(page, "Delete", "Delete?")).getByRole("button", { name: "Delete" }).click();
    await expectVisible(page.getByRole("heading", { name: "Experiments", level: 1 }));
    await waitForData(page);
    await expectHidden(page.getByRole("link", { name: "deeper" }));
    await closePage(page);
});

test("a submitted file is shown and downloaded", async () => {
    const page = await openExperiment(4, "broken-loader");
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page.getByRole("button", { name: "broken.py" }).click();
    const file = page.getByRole("dialog", { name: "broken.py" });
    await expectVisible(file.getByText("reading the list of files"));
    const [saved] = await Promise.all([page.waitForEvent("download"), file.getByRole("button", { name: "Download" }).click()]);
    assert.equal(saved.suggestedFilename(), "broken.py");
    await closePage(page);
});
