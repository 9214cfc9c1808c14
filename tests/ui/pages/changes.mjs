// What one does to experiments and their checkpoints, by clicks; each test takes back what it did.

import assert from "node:assert/strict";
import { test } from "node:test";
import { copied, done, gone, master, see, settled, signedIn, until } from "../browser.mjs";

async function at(id, name) {
    const page = await signedIn();
    await page.goto(`/experiments/${id}`);
    await see(page.getByRole("heading", { name, level: 1 }));
    await settled(page);
    return page;
}

/** Opens the dialog behind a line of the menu. */
async function ask(page, line, title) {
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: line, exact: true }).click();
    const dialog = page.getByRole("dialog", { name: title });
    await see(dialog);
    return dialog;
}

test("a name, a description and notes are written; what is refused is told where one types", async () => {
    const page = await at(6, "parked");
    const dialog = await ask(page, "Name and notes", "Name and notes");
    const name = dialog.getByRole("textbox", { name: "Name", exact: true });
    await name.fill("x".repeat(2000));
    await dialog.getByRole("button", { name: "Save" }).click();
    await see(dialog.getByRole("alert"));
    await name.fill("parked");
    await dialog.getByRole("textbox", { name: "Description" }).fill("for later");
    await dialog.getByRole("textbox", { name: "Notes" }).fill("first line\nsecond line");
    await dialog.getByRole("button", { name: "Copy: as a command" }).click();
    await page.getByRole("menuitem", { name: /muster command/ }).click();
    await copied(
        page,
        "muster experiment set 6 --name parked --description 'for later' --notes 'first line\nsecond line'",
    );
    await see(page.getByText(/^Copied/)); // above the dialog
    await dialog.getByRole("button", { name: "Save" }).click();
    await gone(dialog);
    const description = page.locator(".headline").getByText("for later");
    await see(description);
    await page.getByText("Notes", { exact: true }).click();
    await see(page.getByText("second line"));
    await page.getByRole("button", { name: "Edit" }).click();
    for (const field of ["Description", "Notes"]) await dialog.getByRole("textbox", { name: field }).fill("");
    await dialog.getByRole("button", { name: "Save" }).click();
    await gone(description);
    await done(page);
});

test("labels are put on and lead to what has them", async () => {
    const page = await at(6, "parked");
    const labels = async (text) => {
        const dialog = await ask(page, "Labels", "Labels");
        await dialog.getByRole("textbox").fill(text);
        await dialog.getByRole("textbox").press("Enter");
        await gone(dialog);
    };
    await labels("long, for sunday, long");
    await page.locator(".headline").getByRole("link", { name: "for sunday" }).click();
    await see(page.getByRole("link", { name: "parked" }));
    await until("it is the only one", async () => (await page.locator("tbody tr[data-index]").count()) === 1);
    await page.goBack();
    await settled(page);
    await labels("long");
    await gone(page.getByRole("link", { name: "for sunday" }));
    await done(page);
});

test("into another project and back; into the archive and back", async () => {
    const page = await at(2, "spirals-deep");
    const crumbs = page.getByRole("navigation", { name: "Where this is" });
    for (const project of ["Vision / letters", "Uncategorized"]) {
        const dialog = await ask(page, "Move", "Move to another project");
        await dialog.getByRole("combobox", { name: "Project" }).selectOption({ label: project });
        await dialog.getByRole("button", { name: "Move" }).click();
        await gone(dialog);
        await see(crumbs.getByRole("link", { name: project }));
    }
    for (const verb of ["Archive", "Unarchive"]) {
        await page.getByRole("button", { name: "More actions" }).click();
        await page.getByRole("menuitem", { name: verb, exact: true }).click();
        const word = page.locator(".headline").getByText("archived", { exact: true });
        await (verb === "Archive" ? see(word) : gone(word));
    }
    await done(page);
});

test("a checkpoint becomes a version of a model, another is deleted", async () => {
    const page = await at(3, "spirals-search");
    const best = page.getByRole("link", { name: "Download the best checkpoint" });
    const before = await best.getAttribute("href");
    await page.getByRole("tab", { name: /^Checkpoints/ }).click();
    const row = page.getByRole("row").filter({ hasText: "★ best" });
    const menu = async (line) => {
        await row.getByRole("button", { name: /^Checkpoint/ }).click();
        await page.getByRole("menuitem", { name: line, exact: true }).click();
    };
    await menu("Files");
    const files = page.getByRole("dialog", { name: /^Files of checkpoint/ });
    await see(files.getByText("weights.safetensors"));
    await page.keyboard.press("Escape");
    await menu("Copy the muster command to download");
    const uuid = before.split("/").at(-1);
    await copied(page, `muster checkpoint download ${uuid} --to ${uuid.slice(0, 8)}`);

    await menu("Register as a model");
    const form = page.getByRole("dialog", { name: "Register as a version of a model" });
    await form.getByRole("combobox", { name: /^Model/ }).fill("swirls");
    await form.getByRole("textbox", { name: "Comment" }).fill("of the search");
    await form.getByRole("button", { name: "Register" }).click();
    await see(page.getByText("Registered as version 1 of swirls"));
    await menu("Delete"); // a version of a model stays
    const asked = page.getByRole("dialog", { name: "Delete?" });
    await asked.getByRole("button", { name: "Delete" }).click();
    await see(page.getByText(/swirls/).last());
    assert.equal(await best.getAttribute("href"), before);

    const answer = await page.request.delete("/api/v1/models/swirls", { headers: { Origin: master } });
    assert.equal(answer.status(), 200, await answer.text());
    await menu("Delete");
    await asked.getByRole("button", { name: "Delete" }).click();
    await until("another is the best", async () => (await best.getAttribute("href")) !== before);
    await gone(page.getByRole("row").filter({ hasText: uuid.slice(0, 8) }));
    await page.getByRole("checkbox", { name: "Show deleted ones" }).check();
    await see(page.getByRole("row").filter({ hasText: uuid.slice(0, 8) }).getByText("Deleted"));
    await done(page);
});

test("a fork trains, goes on for longer, and is deleted", async () => {
    const page = await at(2, "spirals-deep");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    const fork = page.getByRole("dialog", { name: "Fork of experiment 2" });
    const text = fork.getByRole("textbox", { name: "Configuration" });
    assert.ok(await text.evaluate((it) => it === document.activeElement), "one can type at once");
    const given = await text.inputValue();
    await text.fill("name: lost");
    await page.keyboard.press("Escape");
    const lost = page.getByRole("dialog", { name: "Throw away what you wrote?" });
    await lost.getByRole("button", { name: "Leave it" }).click();
    await gone(lost);
    assert.equal(await text.inputValue(), "name: lost");
    await text.fill(given.replace("name: spirals-deep", "name: deeper").replace(/steps: \d+/, "steps: 20"));
    await fork.getByRole("checkbox", { name: "Show what differs" }).check();
    await see(fork.getByText(/name: spirals-deep/));
    await fork.getByRole("button", { name: "Submit", exact: true }).click();
    await see(page.getByRole("heading", { name: "deeper", level: 1 }));
    const id = page.url().split("/").at(-1);
    const headline = page.locator(".headline");
    await see(headline.getByRole("link", { name: "2", exact: true })); // forked from
    await see(headline.getByText("Completed"));
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    const more = page.getByRole("dialog", { name: `Continue experiment ${id}` });
    await more.getByRole("textbox", { name: "Configuration" }).fill("trainer: {stepz: 40}");
    await more.getByRole("button", { name: "Continue", exact: true }).click();
    await see(more.getByRole("alert").getByText(/^trainer\.stepz: unknown key; did you mean "steps"/));
    await more.getByRole("textbox", { name: "Configuration" }).fill("trainer: {steps: 40}");
    await more.getByRole("button", { name: "Continue", exact: true }).click();
    await gone(more);
    await see(headline.getByText("step 40,"));
    await see(headline.getByText("Completed"));
    await (await ask(page, "Delete", "Delete?")).getByRole("button", { name: "Delete" }).click();
    await see(page.getByRole("heading", { name: "Experiments", level: 1 }));
    await settled(page);
    await gone(page.getByRole("link", { name: "deeper" }));
    await done(page);
});

test("a file that was submitted is read and saved", async () => {
    const page = await at(4, "broken-loader");
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page.getByRole("button", { name: "broken.py" }).click();
    const file = page.getByRole("dialog", { name: "broken.py" });
    await see(file.getByText("reading the list of files"));
    const [saved] = await Promise.all([page.waitForEvent("download"), file.getByRole("button", { name: "Download" }).click()]);
    assert.equal(saved.suggestedFilename(), "broken.py");
    await done(page);
});
