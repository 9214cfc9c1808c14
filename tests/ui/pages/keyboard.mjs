// Everything that the keyboard does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, gone, see, signedIn } from "../browser.mjs";

test("the palette finds pages, actions and experiments", async () => {
    const page = await signedIn();
    await page.goto("/");
    await see(page.getByRole("heading", { name: "Overview" }));
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Find or do anything" });
    await palette.getByRole("combobox").fill("goqueue");
    await page.keyboard.press("Enter");
    await see(page.getByRole("heading", { name: "Queue", exact: true }));
    await page.keyboard.press("Control+k");
    await palette.getByRole("combobox").fill("parked");
    await see(palette.getByRole("option", { name: /parked/ }));
    await palette.getByRole("option", { name: /6 parked/ }).click();
    await see(page.getByRole("heading", { name: "parked" }));
    await page.keyboard.press("Control+k");
    await see(palette);
    await page.keyboard.press("Escape");
    await gone(palette);
    await done(page);
});

test("g and a letter go to a page; ? shows all keys", async () => {
    const page = await signedIn("admin");
    await page.goto("/");
    await see(page.getByRole("heading", { name: "Overview" }));
    const pages = { e: "Experiments", c: "Cluster", q: "Queue", v: "Compare", m: "Registry", a: "Admin", o: "Overview" };
    for (const [key, title] of Object.entries(pages)) {
        await page.keyboard.press("g");
        await page.keyboard.press(key);
        await see(page.getByRole("heading", { name: title, level: 1 }));
        assert.equal(await page.title(), `${title} · Muster`);
    }
    await page.keyboard.press("?");
    const help = page.getByRole("dialog", { name: "Keys" });
    await see(help.getByText("Search this page"));
    await page.keyboard.press("Escape");
    await gone(help);
    await done(page);
});

test("j, k, x and Enter work on the rows of a table", async () => {
    const page = await signedIn();
    await page.goto("/experiments");
    const rows = page.getByRole("grid", { name: "Experiments" });
    await see(rows.getByRole("link", { name: "big-one" }));
    for (const key of ["j", "j", "k", "j", "x"]) await page.keyboard.press(key);
    await see(page.getByText("1 experiment chosen"));
    await page.keyboard.press("Escape");
    await gone(page.getByText("1 experiment chosen"));
    const at = await rows.getAttribute("aria-activedescendant");
    const name = await page.locator(`#${at}`).getByRole("link").first().innerText();
    await rows.focus();
    await page.keyboard.press("Enter");
    await see(page.getByRole("heading", { name, level: 1 }));
    await page.goBack();
    await see(rows);
    await page.keyboard.press("/");
    await page.keyboard.type("state = ");
    await see(page.getByRole("option", { name: "RUNNING" }));
    await done(page);
});
