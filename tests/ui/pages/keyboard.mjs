// Keyboard shortcuts and the command palette.

import assert from "node:assert/strict";
import { test } from "node:test";
import { closePage, expectHidden, expectVisible, openSignedIn } from "../browser.mjs";

test("the palette finds pages, actions and experiments", async () => {
    const page = await openSignedIn();
    await page.goto("/");
    await expectVisible(page.getByRole("heading", { name: "Overview" }));
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Command palette" });
    await palette.getByRole("combobox").fill("goqueue");
    await page.keyboard.press("Enter");
    await expectVisible(page.getByRole("heading", { name: "Queue", exact: true }));
    await page.keyboard.press("Control+k");
    await palette.getByRole("combobox").fill("parked");
    await expectVisible(palette.getByRole("option", { name: /parked/ }));
    await palette.getByRole("option", { name: /6 parked/ }).click();
    await expectVisible(page.getByRole("heading", { name: "parked" }));
    await page.keyboard.press("Control+k");
    await expectVisible(palette);
    await page.keyboard.press("Escape");
    await expectHidden(palette);
    await closePage(page);
});

test("g and a letter go to a page; ? shows all keys", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/");
    await expectVisible(page.getByRole("heading", { name: "Overview" }));
    const pages = { e: "Experiments", c: "Cluster", q: "Queue", v: "Compare", m: "Registry", a: "Admin", o: "Overview" };
    for (const [key, title] of Object.entries(pages)) {
        await page.keyboard.press("g");
        await page.keyboard.press(key);
        await expectVisible(page.getByRole("heading", { name: title, level: 1 }));
        assert.equal(await page.title(), `${title} · Muster`);
    }
    await page.keyboard.press("?");
    const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await expectVisible(help.getByText("Search this page"));
    await page.keyboard.press("Escape");
    await expectHidden(help);
    await closePage(page);
});

test("j, k, x and Enter work on the rows of a table", async () => {
    const page = await openSignedIn();
    await page.goto("/experiments");
    const rows = page.getByRole("grid", { name: "Experiments" });
    await expectVisible(rows.getByRole("link", { name: "big-one" }));
    for (const key of ["j", "j", "k", "j", "x"]) await page.keyboard.press(key);
    await expectVisible(page.getByText("1 experiment selected"));
    await page.keyboard.press("Escape");
    await expectHidden(page.getByText("1 experiment selected"));
    const at = await rows.getAttribute("aria-activedescendant");
    const name = await page.locator(`#${at}`).getByRole("link").first().innerText();
    await rows.focus();
    await page.keyboard.press("Enter");
    await expectVisible(page.getByRole("heading", { name, level: 1 }));
    await page.goBack();
    await expectVisible(rows);
    await page.keyboard.press("/");
    await page.keyboard.type("state = ");
    await expectVisible(page.getByRole("option", { name: "RUNNING" }));
    await closePage(page);
});
