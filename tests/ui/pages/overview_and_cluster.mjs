// The overview, the cluster and the queue.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
    closePage, expectHidden, clickMenuItem, expectVisible, waitForData, openSignedIn, clickMenuItemAndConfirm,
    waitUntil,
} from "../browser.mjs";

test("the overview shows used slots, waiting jobs with reasons, and failures", async () => {
    const page = await openSignedIn();
    await page.goto("/");
    const pool = page.getByRole("region", { name: "Pool default" });
    await expectVisible(pool.getByText("3 of 4"));
    const queue = page.getByRole("region", { name: "Queue" });
    await expectVisible(queue.getByRole("link", { name: /big-one/ }));
    assert.match(await queue.locator("li").first().innerText(), /slot/);
    await expectVisible(page.getByRole("link", { name: /night-run/ }));
    await expectVisible(page.getByRole("link", { name: /broken-loader/ }));
    await closePage(page);
});

test("the cluster page shows slots by experiment", async () => {
    const page = await openSignedIn();
    await page.goto("/cluster");
    const holders = page.getByRole("list", { name: "Experiments that use slots" });
    await expectVisible(holders.getByRole("link", { name: /night-run.*1 slot on 1 agent/ }));
    await expectVisible(holders.getByRole("link", { name: /fine-print.*2 slots/ }));
    for (const tab of ["Usage history", "What if"]) {
        await page.getByRole("tab", { name: tab }).click();
        await waitForData(page);
    }
    await page.getByRole("tab", { name: "Slots" }).click();
    await page.getByRole("button", { name: /agent-0/ }).first().click();
    await expectVisible(page.getByRole("dialog", { name: /agent-0/ }));
    await page.keyboard.press("Escape");
    await expectHidden(page.getByRole("dialog", { name: /agent-0/ }));
    await closePage(page);
});

test("an administrator drains and enables an agent", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/admin?tab=agents");
    const row = page.getByRole("row", { name: /agent-1/ });
    const button = row.getByRole("button").last();
    await clickMenuItemAndConfirm(button, "Drain agent-1");
    await expectVisible(row.getByText(/Draining|Disabled/));
    await clickMenuItem(button, "Enable agent-1");
    await expectVisible(row.getByText("Enabled"));
    await closePage(page);
});

test("the queue shows reasons, and offers priorities", async () => {
    const page = await openSignedIn();
    await page.goto("/queue");
    const job = page.locator("li.job", { hasText: "big-one" });
    await expectVisible(job);
    assert.match(await job.locator(".job-reason").innerText(), /slot/);
    await job.getByRole("button", { name: /More actions for/ }).click();
    await page.getByRole("menuitem", { name: "Priority…" }).click();
    await expectVisible(page.getByRole("dialog", { name: /Priority|big-one/ }));
    await page.keyboard.press("Escape");
    await page.getByRole("checkbox", { name: "Show users" }).check();
    await expectVisible(page.getByText("Vision").first());
    await closePage(page);
});

test("a job is moved up by button, and down by keyboard", async () => {
    const page = await openSignedIn();
    await page.goto("/queue");
    const titles = () => page.locator("li[data-job] .job-title").allInnerTexts();
    await waitUntil("both wait", async () => (await titles()).length === 2);
    const [first, second] = await titles();
    await page.getByRole("button", { name: `Move ${second} up` }).click();
    await waitUntil("it is first", async () => (await titles()).join() === [second, first].join());
    await page.getByRole("link", { name: second }).focus();
    await page.keyboard.press("Alt+ArrowDown");
    await waitUntil("it is second again", async () => (await titles()).join() === [first, second].join());
    await closePage(page);
});
