// What administrators change: one does it, another sees it without asking.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { agree, done, gone, master, menu, menuAgreed, open, see, settled, signedIn, until } from "../browser.mjs";

/** Two administrators on the same tab. */
async function twoOn(tab) {
    const pages = [await signedIn("admin"), await signedIn("admin")];
    for (const page of pages) {
        await page.goto(`/admin?tab=${tab}`);
        await settled(page);
    }
    return pages;
}

const actions = (page, name) => page.getByRole("button", { name: `Actions of ${name}`, exact: true });

test("a team's weight and quota are set, and its members; others see it", async () => {
    const [page, other] = await twoOn("teams");
    await page.getByRole("button", { name: "New team" }).click();
    const form = page.getByRole("dialog");
    await form.getByRole("textbox", { name: "Name" }).fill("Sound");
    await form.getByRole("spinbutton", { name: /^Weight/ }).fill("2.5");
    await form.getByRole("spinbutton", { name: /^Guaranteed/ }).fill("3");
    await form.getByRole("spinbutton", { name: /^At most/ }).fill("1");
    await form.getByRole("button", { name: "Make it" }).click();
    await see(form.getByRole("alert")); // it cannot be guaranteed more than it may have
    await form.getByRole("spinbutton", { name: /^At most/ }).fill("4");
    await form.getByRole("button", { name: "Make it" }).click();
    await see(other.getByRole("row", { name: /Sound.*2.5.*3.*4/ }));
    await other.getByRole("link", { name: "Sound" }).click();
    await page.getByRole("link", { name: "Sound" }).click();
    const team = page.getByRole("region", { name: "Team Sound" });
    await team.getByRole("button", { name: "Add a member" }).click();
    await form.getByRole("combobox", { name: "User" }).selectOption({ label: "victor" });
    await form.getByRole("button", { name: "Add" }).click();
    await see(other.getByRole("region", { name: "Team Sound" }).getByRole("row", { name: /victor.*editor/ }));
    await menuAgreed(actions(page, "victor"), "Remove victor");
    await gone(other.getByRole("region", { name: "Team Sound" }).getByRole("row", { name: /victor/ }));
    await menuAgreed(actions(page, "Sound"), "Delete Sound");
    await gone(other.getByRole("link", { name: "Sound" }));
    await done(other);
    await done(page);
});

test("a token is made, works, and works no more once it is revoked", async () => {
    const [page, other] = await twoOn("tokens");
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByRole("textbox", { name: "What it is for" }).fill("nightly");
    await agree(page, "Make it");
    const token = await page.getByRole("dialog", { name: "The new token" }).locator("code").first().innerText();
    await agree(page, "I have it");
    await see(other.getByRole("row", { name: /nightly/ }));
    const caller = await open();
    const who = async () =>
        (await caller.request.get("/api/v1/me", { headers: { Authorization: `Bearer ${token}` } })).status();
    assert.equal(await who(), 200);
    await menuAgreed(actions(page, "nightly"), "Revoke");
    await gone(other.getByRole("row", { name: /nightly/ }));
    assert.equal(await who(), 401);
    await done(caller);
    await done(other);
    await done(page);
});

test("a webhook is made, tried, sent elsewhere, and deleted", async () => {
    const heard = [];
    const server = createServer((request, answer) => {
        request.resume();
        heard.push(request.url);
        answer.end();
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${server.address().port}/told`;
    const [page, other] = await twoOn("webhooks");
    await page.getByRole("button", { name: "New webhook" }).click();
    const form = page.getByRole("dialog");
    await form.getByRole("textbox", { name: "Address" }).fill(url);
    await form.getByRole("textbox", { name: "Name", exact: true }).fill("pager");
    await form.getByRole("button", { name: "Make it" }).click();
    await see(other.getByRole("row", { name: /pager/ }));
    await menu(actions(page, "pager"), "Send a test");
    await see(page.getByText("It took the test"));
    assert.deepEqual(heard, ["/told"]);
    await menu(actions(page, "pager"), "Change the address");
    const address = page.getByRole("dialog", { name: "Address of pager" });
    await address.getByRole("textbox", { name: "Address" }).fill("ftp://127.0.0.1/told");
    await agree(page, "Save");
    await see(address.getByRole("alert").getByText(/http/));
    await address.getByRole("textbox", { name: "Address" }).fill(`${url}/elsewhere`);
    await agree(page, "Save");
    await gone(address);
    await see(other.getByRole("row", { name: /pager/ }).getByText(`${url}/elsewhere`));
    await menu(actions(page, "pager"), "Send a test");
    await until("it is told there", () => heard.includes("/told/elsewhere"));
    assert.deepEqual(heard, ["/told", "/told/elsewhere"]);
    server.closeAllConnections();
    server.close();
    await menu(actions(page, "pager"), "Send a test");
    await see(page.getByText(/cannot be reached/));
    await menuAgreed(actions(page, "pager"), "Delete");
    await gone(other.getByRole("row", { name: /pager/ }));
    await done(other);
    await done(page);
});

test("a template is written as YAML, and the master says what is odd about it", async () => {
    const [page, other] = await twoOn("templates");
    await page.getByRole("button", { name: "New template" }).click();
    const form = page.getByRole("dialog", { name: "New template" });
    await form.getByRole("textbox", { name: "Name" }).fill("small");
    const editor = form.getByRole("textbox", { name: "Configuration" });
    await see(form.getByText("The master would take it."));
    await editor.fill("max_restarts: 1\nresource: {slots_per_trial: 2}\n");
    await see(form.getByText(/Line 2, column 1: resource: unknown key; did you mean "resources"/));
    assert.deepEqual(await form.locator(".editor-wrong").allInnerTexts(), ["2"]);
    await editor.fill("max_restarts: [\n");
    await see(form.locator(".bad", { hasText: /Line/ }));
    await editor.fill("max_restarts: 1\nresources: {slots_per_trial: 2}\n");
    await form.getByRole("button", { name: "Save" }).click();
    await gone(form);
    await other.getByRole("link", { name: "small" }).click();
    const shown = other.getByRole("region", { name: "Template small" });
    await see(shown.getByText("slots_per_trial: 2"));
    await menu(actions(page, "small"), "Edit");
    await page.getByRole("dialog").getByRole("textbox", { name: "Configuration" }).fill("max_restarts: 7\n");
    await agree(page, "Save");
    await see(shown.getByText("max_restarts: 7"));
    await menuAgreed(actions(page, "small"), "Delete");
    await gone(shown);
    await done(other);
    await done(page);
});

test("users and the audit trail tell of what another does, as it is done", async () => {
    const [page, other] = await twoOn("users");
    const trail = await signedIn("admin");
    await trail.goto("/admin?tab=audit");
    await settled(trail);
    const row = (on) => on.getByRole("row", { name: /victor/ });
    await menu(actions(page, "victor"), "Edit");
    await page.getByRole("dialog").getByRole("textbox", { name: "Display name" }).fill("Victor the viewer");
    await agree(page, "Save");
    await see(row(other).getByText("Victor the viewer"));
    await see(trail.getByRole("row", { name: /PATCH.*\/users\/\d+.*displayName=Victor the viewer/ }));
    await menu(actions(page, "victor"), "Set password");
    await page.getByLabel("New password").fill("another one");
    await page.getByLabel("Once more").fill("not the same");
    await agree(page, "Set it");
    await see(page.getByText("The two are not the same"));
    await agree(page, "Leave it");
    const { user } = await (await page.request.get("/api/v1/users/victor/by-username")).json();
    await page.request.patch(`/api/v1/users/${user.id}`, { headers: { Origin: master }, data: { displayName: "Victor" } });
    await gone(other.getByText("Victor the viewer"));
    for (const one of [trail, other, page]) await done(one);
});
