// What operates the cluster: the overview, its machines and its queue.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, gone, menu, see, settled, signedIn, menuAgreed, until } from "../browser.mjs";

test("the overview tells who holds the cluster, what waits and why, and what failed", async () => {
    const page = await signedIn();
    await page.goto("/");
    const pool = page.getByRole("region", { name: "Pool default" });
    await see(pool.getByText("3 of 4"));
    const queue = page.getByRole("region", { name: "Queue" });
    await see(queue.getByRole("link", { name: /big-one/ }));
    assert.match(await queue.locator("li").first().innerText(), /slot/);
    await see(page.getByRole("link", { name: /night-run/ }));
    await see(page.getByRole("link", { name: /broken-loader/ }));
    await done(page);
});

test("the cluster shows slots by experiment; who may not drain is told so", async () => {
    const page = await signedIn();
    await page.goto("/cluster");
    const holders = page.getByRole("list", { name: "What holds slots" });
    await see(holders.getByRole("link", { name: /night-run.*1 slot on 1 agent/ }));
    await see(holders.getByRole("link", { name: /fine-print.*2 slots/ }));
    for (const tab of ["History of use", "What if"]) {
        await page.getByRole("tab", { name: tab }).click();
        await settled(page);
    }
    await page.getByRole("tab", { name: "Slots" }).click();
    await page.getByRole("button", { name: /agent-0/ }).first().click();
    await see(page.getByRole("dialog", { name: /agent-0/ }));
    await page.keyboard.press("Escape");
    await gone(page.getByRole("dialog", { name: /agent-0/ }));
    await done(page);
});

test("an administrator drains an agent and lets it back", async () => {
    const page = await signedIn("admin");
    await page.goto("/admin?tab=agents");
    const row = page.getByRole("row", { name: /agent-1/ });
    const button = row.getByRole("button").last();
    await menuAgreed(button, "Drain agent-1");
    await see(row.getByText(/Draining|Disabled/));
    await menu(button, "Enable agent-1");
    await see(row.getByText("Enabled"));
    await done(page);
});

test("the queue says why, and its order is steered", async () => {
    const page = await signedIn();
    await page.goto("/queue");
    const job = page.locator("li.job", { hasText: "big-one" });
    await see(job);
    assert.match(await job.locator(".job-why").innerText(), /slot/);
    await job.getByRole("button", { name: /More for/ }).click();
    await page.getByRole("menuitem", { name: "Priority…" }).click();
    await see(page.getByRole("dialog", { name: /Priority|big-one/ }));
    await page.keyboard.press("Escape");
    await page.getByRole("checkbox", { name: "Users of teams" }).check();
    await see(page.getByText("Vision").first());
    await done(page);
});

test("one's own is moved before the other, and back by the keyboard", async () => {
    const page = await signedIn();
    await page.goto("/queue");
    const titles = () => page.locator("li[data-job] .job-title").allInnerTexts();
    await until("both wait", async () => (await titles()).length === 2);
    const [first, second] = await titles();
    await page.getByRole("button", { name: `Move ${second} up` }).click();
    await until("it is the first", async () => (await titles()).join() === [second, first].join());
    await page.getByRole("link", { name: second }).focus();
    await page.keyboard.press("Alt+ArrowDown");
    await until("it is the second again", async () => (await titles()).join() === [first, second].join());
    await done(page);
});
