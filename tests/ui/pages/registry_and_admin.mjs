// The model registry, and the page Admin.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
    PASSWORD, confirmDialog, closePage, expectHidden, master, clickMenuItem, clickMenuItemAndConfirm,
    openPage, expectVisible, waitForData, openSignedIn, waitUntil,
} from "../browser.mjs";

test("a model links to its origin, and its version is downloaded", async () => {
    const page = await openSignedIn();
    await page.goto("/models");
    await page.getByRole("link", { name: "spirals" }).click();
    await expectVisible(page.getByRole("heading", { name: "Version 2" }));
    await expectVisible(page.getByText("the deep one, a little better").first());
    await page.getByRole("link", { name: "Version 1" }).click();
    await expectVisible(page.getByRole("heading", { name: "Version 1" }));
    const version = page.getByRole("region", { name: "Version 1" });
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        version.getByRole("link", { name: "Download" }).click(),
    ]);
    assert.equal(await saved.failure(), null);
    await version.getByRole("link", { name: /spirals-wide/ }).first().click();
    await expectVisible(page.getByRole("heading", { name: "spirals-wide", level: 1 }));
    await closePage(page);
});

test("a model is created and deleted", async () => {
    const page = await openSignedIn();
    await page.goto("/models");
    await page.getByRole("button", { name: "New model" }).click();
    const form = page.getByRole("dialog", { name: "New model" });
    await form.getByRole("textbox", { name: "Name" }).fill("passing");
    await form.getByRole("textbox", { name: /^Metadata/ }).fill("no colon here");
    await form.getByRole("button", { name: "Create" }).click();
    await expectVisible(form.getByRole("alert"));
    await form.getByRole("textbox", { name: /^Metadata/ }).fill("accuracy: 0.98");
    await form.getByRole("button", { name: "Create" }).click();
    await expectVisible(page.getByRole("heading", { name: "passing", level: 1 }));
    await expectVisible(page.getByText("0.98"));

    await page.goto("/models");
    await page.getByRole("button", { name: "New model" }).click();
    await form.getByRole("textbox", { name: "Name" }).fill("passing");
    await form.getByRole("button", { name: "Create" }).click();
    await expectVisible(form.getByRole("alert").getByText("A model named passing already exists"));

    await page.goto("/models/passing");
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete the model", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: /Delete/ }).click();
    await expectVisible(page.getByRole("heading", { name: "Registry", level: 1 }));
    await waitForData(page);
    await expectHidden(page.getByRole("link", { name: "passing" }));
    await closePage(page);
});

test("a checkpoint is registered and edited, and the model is renamed and moved to another team", async () => {
    const page = await openSignedIn("admin");
    const headers = { Origin: master };
    const made = await page.request.post("/api/v1/models", { headers, data: { name: "wanderer" } });
    assert.equal(made.status(), 200, await made.text());
    const { experiments } = await (await page.request.get("/api/v1/experiments?name=spirals-wide")).json();
    await page.goto("/models/wanderer");
    await expectVisible(page.getByText("No versions yet"));
    await page.getByRole("button", { name: "New version" }).click();
    let form = page.getByRole("dialog", { name: "New version of wanderer" });
    await form.getByRole("spinbutton", { name: /^Experiment/ }).fill(String(experiments[0].id));
    await form.getByRole("combobox", { name: "Checkpoint" }).selectOption({ index: 1 });
    await waitUntil("its UUID is filled in", async () => /^[0-9a-f-]{36}$/.test(
        await form.getByRole("textbox", { name: "Checkpoint UUID" }).inputValue()));
    await form.getByRole("textbox", { name: "Comment" }).fill("as it came");
    await confirmDialog(page, "Register");
    await expectHidden(form);
    const version = page.getByRole("region", { name: "Version 1" });
    await expectVisible(version.getByText("as it came"));

    await version.getByRole("button", { name: "Edit version" }).click();
    form = page.getByRole("dialog", { name: "Version 1 of wanderer" });
    await form.getByRole("textbox", { name: "Name" }).fill("first steps");
    await form.getByRole("textbox", { name: "Comment" }).fill("looked at since");
    await form.getByRole("textbox", { name: /^Labels/ }).fill("tried, kept");
    await form.getByRole("textbox", { name: /^Metadata/ }).fill("accuracy: 0.5");
    await confirmDialog(page, "Save");
    await expectHidden(form);
    await expectVisible(version.getByRole("heading", { name: "Version 1 · first steps" }));
    for (const text of ["looked at since", "tried", "kept", "0.5"]) await expectVisible(version.getByText(text, { exact: true }));
    await expectHidden(version.getByText("as it came"));

    await page.getByRole("button", { name: "Edit", exact: true }).click();
    form = page.getByRole("dialog", { name: "Edit wanderer" });
    await form.getByRole("textbox", { name: "Name" }).fill("settler");
    await form.getByRole("textbox", { name: "Notes" }).fill("It has come far.");
    await confirmDialog(page, "Save");
    await expectVisible(page.getByRole("heading", { name: "settler", level: 1 }));
    await expectVisible(page.getByText("It has come far."));
    assert.match(page.url(), /\/models\/settler/);

    const actions = page.getByRole("button", { name: "More actions" }).first();
    await clickMenuItem(actions, "Move to another team");
    form = page.getByRole("dialog", { name: "Move settler" });
    await confirmDialog(page, "Move");
    await expectVisible(form.getByRole("alert").getByText("Choose a team"));
    await form.getByRole("combobox", { name: "Team" }).selectOption({ label: "Vision" });
    await confirmDialog(page, "Move");
    await expectHidden(form);
    await expectVisible(page.getByRole("complementary", { name: "About the model" }).getByText("Vision"));
    await clickMenuItemAndConfirm(actions, "Delete the model");
    await expectVisible(page.getByRole("heading", { name: "Registry", level: 1 }));
    await closePage(page);
});

test("an administrator creates a user, who signs in, and deactivates the account", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/admin");
    await page.getByRole("button", { name: "New user" }).click();
    const form = page.getByRole("dialog", { name: "New user" });
    await form.getByRole("textbox", { name: /^Name/ }).fill("grace");
    await form.getByRole("textbox", { name: "Display name" }).fill("Grace");
    await form.getByLabel("Password").fill(PASSWORD);
    await form.getByRole("button", { name: "Create" }).click();
    const row = page.getByRole("row", { name: /grace/ });
    await expectVisible(row);

    const other = await openPage();
    await other.goto("/");
    await other.getByLabel("User").fill("grace");
    await other.getByLabel("Password").fill(PASSWORD);
    await other.getByRole("button", { name: "Sign in" }).click();
    await expectVisible(other.getByRole("button", { name: "Signed in as Grace" }));

    await row.getByRole("button").last().click();
    await page.getByRole("menuitem", { name: "Deactivate", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Deactivate" }).click();
    await expectVisible(row.getByText("Disabled"));
    await other.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Experiments" }).click();
    await expectVisible(other.getByRole("button", { name: "Sign in" }));
    await closePage(other);
    await closePage(page);
});

test("every tab of Admin shows its content", async () => {
    const page = await openSignedIn("admin");
    const shows = {
        teams: "Vision",
        tokens: /token/i,
        agents: "agent-0",
        webhooks: /webhook/i,
        templates: /template/i,
        audit: /determined|admin/,
        notice: /message/i,
        log: /./,
    };
    for (const [tab, text] of Object.entries(shows)) {
        await page.goto(`/admin?tab=${tab}`);
        await waitForData(page);
        await expectVisible(page.getByRole("main").getByText(text));
    }
    await closePage(page);
});

test("the cluster message is above every page", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/admin?tab=notice");
    await waitForData(page);
    await page.getByRole("button", { name: "New message" }).click();
    await page.getByRole("textbox", { name: "Message" }).fill("The cluster rests on Sunday.");
    await page.getByRole("button", { name: "Publish" }).click();
    await expectVisible(page.getByRole("region", { name: "Current message" }));
    const other = await openSignedIn();
    await other.goto("/queue");
    await expectVisible(other.getByRole("status").getByText("The cluster rests on Sunday."));
    await closePage(other);
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: /Remove/ }).click();
    await expectVisible(page.getByRole("heading", { name: "No message" }));
    await closePage(page);
});
