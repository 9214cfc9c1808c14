// What people keep and administrators look after: the registry, and the page Admin.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, agree, done, gone, master, menu, menuAgreed, open, see, settled, signedIn, until } from "../browser.mjs";

test("a model leads to what it came from, and its version is downloaded", async () => {
    const page = await signedIn();
    await page.goto("/models");
    await page.getByRole("link", { name: "spirals" }).click();
    await see(page.getByRole("heading", { name: "Version 2" }));
    await see(page.getByText("the deep one, a little better").first());
    await page.getByRole("link", { name: "Version 1" }).click();
    await see(page.getByRole("heading", { name: "Version 1" }));
    const version = page.getByRole("region", { name: "Version 1" });
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        version.getByRole("link", { name: "Download" }).click(),
    ]);
    assert.equal(await saved.failure(), null);
    await version.getByRole("link", { name: /spirals-wide/ }).first().click();
    await see(page.getByRole("heading", { name: "spirals-wide", level: 1 }));
    await done(page);
});

test("a model is made, described, archived and deleted", async () => {
    const page = await signedIn();
    await page.goto("/models");
    await page.getByRole("button", { name: "New model" }).click();
    const form = page.getByRole("dialog", { name: "New model" });
    await form.getByRole("textbox", { name: "Name" }).fill("passing");
    await form.getByRole("textbox", { name: /^Metadata/ }).fill("no colon here");
    await form.getByRole("button", { name: "Make it" }).click();
    await see(form.getByRole("alert"));
    await form.getByRole("textbox", { name: /^Metadata/ }).fill("accuracy: 0.98");
    await form.getByRole("button", { name: "Make it" }).click();
    await see(page.getByRole("heading", { name: "passing", level: 1 }));
    await see(page.getByText("0.98"));

    await page.goto("/models");
    await page.getByRole("button", { name: "New model" }).click();
    await form.getByRole("textbox", { name: "Name" }).fill("passing");
    await form.getByRole("button", { name: "Make it" }).click();
    await see(form.getByRole("alert").getByText("There is a model passing already"));

    await page.goto("/models/passing");
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete the model", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: /Delete/ }).click();
    await see(page.getByRole("heading", { name: "Registry", level: 1 }));
    await settled(page);
    await gone(page.getByRole("link", { name: "passing" }));
    await done(page);
});

test("a checkpoint is registered and described, and the model is renamed and goes to another team", async () => {
    const page = await signedIn("admin");
    const headers = { Origin: master };
    const made = await page.request.post("/api/v1/models", { headers, data: { name: "wanderer" } });
    assert.equal(made.status(), 200, await made.text());
    const { experiments } = await (await page.request.get("/api/v1/experiments?name=spirals-wide")).json();
    await page.goto("/models/wanderer");
    await see(page.getByText("No versions yet"));
    await page.getByRole("button", { name: "New version" }).click();
    let form = page.getByRole("dialog", { name: "New version of wanderer" });
    await form.getByRole("spinbutton", { name: /^Experiment/ }).fill(String(experiments[0].id));
    await form.getByRole("combobox", { name: "Checkpoint" }).selectOption({ index: 1 });
    await until("its name is filled in", async () => /^[0-9a-f-]{36}$/.test(
        await form.getByRole("textbox", { name: "Checkpoint" }).inputValue()));
    await form.getByRole("textbox", { name: "Comment" }).fill("as it came");
    await agree(page, "Register it");
    await gone(form);
    const version = page.getByRole("region", { name: "Version 1" });
    await see(version.getByText("as it came"));

    await version.getByRole("button", { name: "Edit version" }).click();
    form = page.getByRole("dialog", { name: "Version 1 of wanderer" });
    await form.getByRole("textbox", { name: "Name" }).fill("first steps");
    await form.getByRole("textbox", { name: "Comment" }).fill("looked at since");
    await form.getByRole("textbox", { name: /^Labels/ }).fill("tried, kept");
    await form.getByRole("textbox", { name: /^Metadata/ }).fill("accuracy: 0.5");
    await agree(page, "Save");
    await gone(form);
    await see(version.getByRole("heading", { name: "Version 1 · first steps" }));
    for (const text of ["looked at since", "tried", "kept", "0.5"]) await see(version.getByText(text, { exact: true }));
    await gone(version.getByText("as it came"));

    await page.getByRole("button", { name: "Edit", exact: true }).click();
    form = page.getByRole("dialog", { name: "Edit wanderer" });
    await form.getByRole("textbox", { name: "Name" }).fill("settler");
    await form.getByRole("textbox", { name: "Notes" }).fill("It has come far.");
    await agree(page, "Save");
    await see(page.getByRole("heading", { name: "settler", level: 1 }));
    await see(page.getByText("It has come far."));
    assert.match(page.url(), /\/models\/settler/);

    const actions = page.getByRole("button", { name: "More actions" }).first();
    await menu(actions, "Move to another team");
    form = page.getByRole("dialog", { name: "Move settler" });
    await agree(page, "Move it");
    await see(form.getByRole("alert").getByText("Choose the team"));
    await form.getByRole("combobox", { name: "Team" }).selectOption({ label: "Vision" });
    await agree(page, "Move it");
    await gone(form);
    await see(page.getByRole("complementary", { name: "About the model" }).getByText("Vision"));
    await menuAgreed(actions, "Delete the model");
    await see(page.getByRole("heading", { name: "Registry", level: 1 }));
    await done(page);
});

test("an administrator makes a user, who can then sign in, and shuts him out", async () => {
    const page = await signedIn("admin");
    await page.goto("/admin");
    await page.getByRole("button", { name: "New user" }).click();
    const form = page.getByRole("dialog", { name: "New user" });
    await form.getByRole("textbox", { name: /^Name/ }).fill("grace");
    await form.getByRole("textbox", { name: "Display name" }).fill("Grace");
    await form.getByLabel("Password").fill(PASSWORD);
    await form.getByRole("button", { name: "Make it" }).click();
    const row = page.getByRole("row", { name: /grace/ });
    await see(row);

    const other = await open();
    await other.goto("/");
    await other.getByLabel("User").fill("grace");
    await other.getByLabel("Password").fill(PASSWORD);
    await other.getByRole("button", { name: "Sign in" }).click();
    await see(other.getByRole("button", { name: "Signed in as Grace" }));

    await row.getByRole("button").last().click();
    await page.getByRole("menuitem", { name: "Deactivate", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Deactivate" }).click();
    await see(row.getByText("Disabled"));
    await other.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Experiments" }).click();
    await see(other.getByRole("button", { name: "Sign in" }));
    await done(other);
    await done(page);
});

test("every tab of Admin has what it is called by", async () => {
    const page = await signedIn("admin");
    const shows = {
        teams: "Vision",
        tokens: /token/i,
        agents: "agent-0",
        webhooks: /webhook/i,
        templates: /template/i,
        audit: /determined|admin/,
        notice: /notice/i,
        log: /./,
    };
    for (const [tab, text] of Object.entries(shows)) {
        await page.goto(`/admin?tab=${tab}`);
        await settled(page);
        await see(page.getByRole("main").getByText(text));
    }
    await done(page);
});

test("a notice of the administrators stands above every page", async () => {
    const page = await signedIn("admin");
    await page.goto("/admin?tab=notice");
    await settled(page);
    await page.getByRole("button", { name: "New notice" }).click();
    await page.getByRole("textbox", { name: "Notice" }).fill("The cluster rests on Sunday.");
    await page.getByRole("button", { name: "Show it" }).click();
    await see(page.getByRole("region", { name: "The present notice" }));
    const other = await signedIn();
    await other.goto("/queue");
    await see(other.getByRole("status").getByText("The cluster rests on Sunday."));
    await done(other);
    await page.getByRole("button", { name: "Remove it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: /Remove/ }).click();
    await see(page.getByRole("heading", { name: "No notice" }));
    await done(page);
});
