// Signing in and out, and permissions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, closePage, expectHidden, openPage, expectVisible, openSignedIn } from "../browser.mjs";

test("a wrong password is reported at its field; the right one leads to the requested page", async () => {
    const page = await openPage();
    await page.goto("/queue");
    await page.getByLabel("User").fill("determined");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expectVisible(page.getByRole("alert"));
    assert.match(await page.getByRole("alert").innerText(), /password/);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await expectVisible(page.getByRole("heading", { name: "Queue" }));
    assert.equal(new URL(page.url()).pathname, "/queue");
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["muster_session", true, "Strict"]);
    await closePage(page);
});

test("signing out ends the session", async () => {
    const page = await openSignedIn("ada");
    await page.goto("/");
    const [cookie] = await page.context().cookies();
    await page.getByRole("button", { name: "Signed in as Ada" }).click();
    await page.getByRole("menuitem", { name: "Sign out Ada" }).click();
    await expectVisible(page.getByRole("button", { name: "Sign in" }));
    assert.deepEqual(await page.context().cookies(), []);
    await page.context().addCookies([cookie]); // the old cookie is no longer valid
    await page.goto("/experiments");
    await expectVisible(page.getByRole("button", { name: "Sign in" }));
    await closePage(page);
});

test("a viewer sees why actions are disabled", async () => {
    const page = await openSignedIn("victor");
    await page.goto("/experiments/5");
    await expectVisible(page.getByRole("heading", { name: "night-run" }));
    const pause = page.getByRole("button", { name: "Pause", exact: true });
    await expectVisible(page.locator("button[aria-disabled=true]").filter({ hasText: "Pause" }));
    assert.match(await pause.getAttribute("title"), /editor/);
    await pause.click({ force: true }); // disabled, and shows the reason
    await expectVisible(page.getByText("This requires the role editor in the workspace"));
    await page.goto("/admin");
    await expectVisible(page.getByRole("tab", { name: "Users" }));
    for (const name of ["Audit", "Cluster message", "Master log"])
        assert.equal(await page.getByRole("tab", { name }).count(), 0, name);
    await expectHidden(page.getByRole("button", { name: "New user" }));
    await closePage(page);
});

test("unknown addresses and objects are reported", async () => {
    const page = await openSignedIn();
    await page.goto("/nothing/of/this/name");
    await expectVisible(page.getByRole("heading", { name: "Page not found" }));
    await page.goto("/experiments/4711");
    await expectVisible(page.getByText(/experiment '4711' not found/i));
    await page.goto("/trials/x");
    await expectVisible(page.getByText(/"x" is not an integer/));
    await page.goto("/det/experiments/1/overview"); // an address that det prints
    await expectVisible(page.getByRole("heading", { name: "spirals-wide" }));
    await closePage(page);
});
