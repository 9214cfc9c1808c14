// The way in and out, and what is there for whom.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, done, gone, open, see, signedIn } from "../browser.mjs";

test("a wrong password is told at its field; the right one leads where one wanted to go", async () => {
    const page = await open();
    await page.goto("/queue");
    await page.getByLabel("User").fill("determined");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await see(page.getByRole("alert"));
    assert.match(await page.getByRole("alert").innerText(), /password/);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await see(page.getByRole("heading", { name: "Queue" }));
    assert.equal(new URL(page.url()).pathname, "/queue");
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["muster_session", true, "Strict"]);
    await done(page);
});

test("who signs out is asked for the password again, and the session is over", async () => {
    const page = await signedIn("ada");
    await page.goto("/");
    const [cookie] = await page.context().cookies();
    await page.getByRole("button", { name: "Signed in as Ada" }).click();
    await page.getByRole("menuitem", { name: "Sign out Ada" }).click();
    await see(page.getByRole("button", { name: "Sign in" }));
    assert.deepEqual(await page.context().cookies(), []);
    await page.context().addCookies([cookie]); // of no use to whoever kept it
    await page.goto("/experiments");
    await see(page.getByRole("button", { name: "Sign in" }));
    await done(page);
});

test("a viewer is told why he may not", async () => {
    const page = await signedIn("victor");
    await page.goto("/experiments/5");
    await see(page.getByRole("heading", { name: "night-run" }));
    const pause = page.getByRole("button", { name: "Pause", exact: true });
    await see(page.locator("button[aria-disabled=true]").filter({ hasText: "Pause" }));
    assert.match(await pause.getAttribute("title"), /editor/);
    await pause.click({ force: true }); // it is there, and says why
    await see(page.getByText("This takes the role editor in the workspace"));
    await page.goto("/admin");
    await see(page.getByRole("tab", { name: "Users" }));
    for (const name of ["Audit", "Notice", "Master's log"])
        assert.equal(await page.getByRole("tab", { name }).count(), 0, name);
    await gone(page.getByRole("button", { name: "New user" }));
    await done(page);
});

test("an address of nothing says so", async () => {
    const page = await signedIn();
    await page.goto("/nothing/of/this/name");
    await see(page.getByRole("heading", { name: "There is nothing at this address" }));
    await page.goto("/experiments/4711");
    await see(page.getByText(/there is no experiment 4711/i));
    await page.goto("/trials/x");
    await see(page.getByText(/"x" is not an integer/));
    await page.goto("/det/experiments/1/overview"); // what det prints
    await see(page.getByRole("heading", { name: "spirals-wide" }));
    await done(page);
});
