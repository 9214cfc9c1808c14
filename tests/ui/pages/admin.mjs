// Administration: one administrator makes a change, and another one sees it at once.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import {
    confirmDialog, closePage, expectHidden, master, clickMenuItem, clickMenuItemAndConfirm, openPage,
    expectVisible, waitForData, openSignedIn, waitUntil,
} from "../browser.mjs";

/** Two windows of an administrator, on the same tab. */
async function openTwice(tab) {
    const pages = [await openSignedIn("admin"), await openSignedIn("admin")];
    for (const page of pages) {
        await page.goto(`/admin?tab=${tab}`);
        await waitForData(page);
    }
    return pages;
}

const actionsButton = (page, name) => page.getByRole("button", { name: `Actions for ${name}`, exact: true });

test("a team's quota and members are edited, and others see it", async () => {
    const [page, other] = await openTwice("teams");
    await page.getByRole("button", { name: "New team" }).click();
    const form = page.getByRole("dialog");
    await form.getByRole("textbox", { name: "Name" }).fill("Sound");
    await form.getByRole("spinbutton", { name: /^Weight/ }).fill("2.5");
    await form.getByRole("spinbutton", { name: /^Guaranteed/ }).fill("3");
    await form.getByRole("spinbutton", { name: /^Maximum/ }).fill("1");
    await form.getByRole("button", { name: "Create" }).click();
    await expectVisible(form.getByRole("alert")); // the guarantee exceeds the maximum
    await form.getByRole("spinbutton", { name: /^Maximum/ }).fill("4");
    await form.getByRole("button", { name: "Create" }).click();
    await expectVisible(other.getByRole("row", { name: /Sound.*2.5.*3.*4/ }));
    await other.getByRole("link", { name: "Sound" }).click();
    await page.getByRole("link", { name: "Sound" }).click();
    const team = page.getByRole("region", { name: "Team Sound" });
    await team.getByRole("button", { name: "Add member" }).click();
    await form.getByRole("combobox", { name: "User" }).selectOption({ label: "victor" });
    await form.getByRole("button", { name: "Add" }).click();
    await expectVisible(other.getByRole("region", { name: "Team Sound" }).getByRole("row", { name: /victor.*editor/ }));
    await clickMenuItemAndConfirm(actionsButton(page, "victor"), "Remove victor");
    await expectHidden(other.getByRole("region", { name: "Team Sound" }).getByRole("row", { name: /victor/ }));
    await clickMenuItemAndConfirm(actionsButton(page, "Sound"), "Delete Sound");
    await expectHidden(other.getByRole("link", { name: "Sound" }));
    await closePage(other);
    await closePage(page);
});

test("a token is created, works, and stops working when it is revoked", async () => {
    const [page, other] = await openTwice("tokens");
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByRole("textbox", { name: "Description" }).fill("nightly");
    await confirmDialog(page, "Create");
    const token = await page.getByRole("dialog", { name: "New token" }).locator("code").first().innerText();
    await confirmDialog(page, "Done");
    await expectVisible(other.getByRole("row", { name: /nightly/ }));
    const caller = await openPage();
    const who = async () =>
        (await caller.request.get("/api/v1/me", { headers: { Authorization: `Bearer ${token}` } })).status();
    assert.equal(await who(), 200);
    await clickMenuItemAndConfirm(actionsButton(page, "nightly"), "Revoke");
    await expectHidden(other.getByRole("row", { name: /nightly/ }));
    assert.equal(await who(), 401);
    await closePage(caller);
    await closePage(other);
    await closePage(page);
});

test("a webhook is created, tested, changed and deleted", async () => {
    const heard = [];
    const server = createServer((request, answer) => {
        request.resume();
        heard.push(request.url);
        answer.end();
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${server.address().port}/told`;
    const [page, other] = await openTwice("webhooks");
    await page.getByRole("button", { name: "New webhook" }).click();
    const form = page.getByRole("dialog");
    await form.getByRole("textbox", { name: "URL" }).fill(url);
    await form.getByRole("textbox", { name: "Name", exact: true }).fill("pager");
    await form.getByRole("button", { name: "Create" }).click();
    await expectVisible(other.getByRole("row", { name: /pager/ }));
    await clickMenuItem(actionsButton(page, "pager"), "Send a test");
    await expectVisible(page.getByText("Test delivered"));
    assert.deepEqual(heard, ["/told"]);
    await clickMenuItem(actionsButton(page, "pager"), "Edit URL");
    const address = page.getByRole("dialog", { name: "URL of pager" });
    await address.getByRole("textbox", { name: "URL" }).fill("ftp://127.0.0.1/told");
    await confirmDialog(page, "Save");
    await expectVisible(address.getByRole("alert").getByText(/http/));
    await address.getByRole("textbox", { name: "URL" }).fill(`${url}/elsewhere`);
    await confirmDialog(page, "Save");
    await expectHidden(address);
    await expectVisible(other.getByRole("row", { name: /pager/ }).getByText(`${url}/elsewhere`));
    await clickMenuItem(actionsButton(page, "pager"), "Send a test");
    await waitUntil("the new URL gets the test", () => heard.includes("/told/elsewhere"));
    assert.deepEqual(heard, ["/told", "/told/elsewhere"]);
    server.closeAllConnections();
    server.close();
    await clickMenuItem(actionsButton(page, "pager"), "Send a test");
    await expectVisible(page.getByText(/cannot be reached/));
    await clickMenuItemAndConfirm(actionsButton(page, "pager"), "Delete");
    await expectHidden(other.getByRole("row", { name: /pager/ }));
    await closePage(other);
    await closePage(page);
});

test("a template is written as YAML, and the master reports its errors", async () => {
    const [page, other] = await openTwice("templates");
    await page.getByRole("button", { name: "New template" }).click();
    const form = page.getByRole("dialog", { name: "New template" });
    await form.getByRole("textbox", { name: "Name" }).fill("small");
    const editor = form.getByRole("textbox", { name: "Configuration" });
    await expectVisible(form.getByText("The configuration is valid."));
    await editor.fill("max_restarts: 1\nresource: {slots_per_trial: 2}\n");
    await expectVisible(form.getByText(/Line 2, column 1: resource: unknown key; did you mean "resources"/));
    assert.deepEqual(await form.locator(".editor-error").allInnerTexts(), ["2"]);
    await editor.fill("max_restarts: [\n");
    await expectVisible(form.locator(".bad", { hasText: /Line/ }));
    await editor.fill("max_restarts: 1\nresources: {slots_per_trial: 2}\n");
    await form.getByRole("button", { name: "Save" }).click();
    await expectHidden(form);
    await other.getByRole("link", { name: "small" }).click();
    const shown = other.getByRole("region", { name: "Template small" });
    await expectVisible(shown.getByText("slots_per_trial: 2"));
    await clickMenuItem(actionsButton(page, "small"), "Edit");
    await page.getByRole("dialog").getByRole("textbox", { name: "Configuration" }).fill("max_restarts: 7\n");
    await confirmDialog(page, "Save");
    await expectVisible(shown.getByText("max_restarts: 7"));
    await clickMenuItemAndConfirm(actionsButton(page, "small"), "Delete");
    await expectHidden(shown);
    await closePage(other);
    await closePage(page);
});

test("users and the audit trail show the changes of another administrator at once", async () => {
    const [page, other] = await openTwice("users");
    const trail = await openSignedIn("admin");
    await trail.goto("/admin?tab=audit");
    await waitForData(trail);
    const row = (on) => on.getByRole("row", { name: /victor/ });
    await clickMenuItem(actionsButton(page, "victor"), "Edit");
    await page.getByRole("dialog").getByRole("textbox", { name: "Display name" }).fill("Victor the viewer");
    await confirmDialog(page, "Save");
    await expectVisible(row(other).getByText("Victor the viewer"));
    await expectVisible(trail.getByRole("row", { name: /PATCH.*\/users\/\d+.*displayName=Victor the viewer/ }));
    await clickMenuItem(actionsButton(page, "victor"), "Set password");
    await page.getByLabel("New password").fill("another one");
    await page.getByLabel("Repeat password").fill("not the same");
    await confirmDialog(page, "Set password");
    await expectVisible(page.getByText("The passwords do not match"));
    await confirmDialog(page, "Cancel");
    const { user } = await (await page.request.get("/api/v1/users/victor/by-username")).json();
    await page.request.patch(`/api/v1/users/${user.id}`, { headers: { Origin: master }, data: { displayName: "Victor" } });
    await expectHidden(other.getByText("Victor the viewer"));
    for (const one of [trail, other, page]) await closePage(one);
});
