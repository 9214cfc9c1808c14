// The machines: slots and agents switched off and on, one that is lost and forgotten, what more of them would do.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { done, faultsOf, gone, master, menu, see, settled, signedIn, menuAgreed, until } from "../browser.mjs";

const folder = process.env.MUSTER_UI_FOLDER;

/** An agent of its own pool, so that it takes no other test's work. */
function startAgent(name) {
    const work = mkdtempSync(join(folder, "spare-"));
    const words = ["--master", master, "--token-file", join(folder, "master", "agent.token"), "--work-dir", work];
    const own = ["--id", name, "--slots", "2", "--pool", name];
    const child = spawn(join(process.env.MUSTER_BIN, "muster-agent"), [...words, ...own], { stdio: "ignore" });
    return { child, remove: () => rmSync(work, { recursive: true, force: true }) };
}

const headers = { Origin: master };

/** An experiment of one slot that only that agent has. */
async function submitTo(page, name) {
    const config = `name: on-${name}\nentrypoint: exec sleep 600\nresources: {slots_per_trial: 1, resource_pool: ${name}}\n` +
        "searcher: {name: single, metric: none}\nmax_restarts: 0\npreemption_timeout: 1\n";
    const answer = await page.request.post("/api/v1/experiments", { headers, data: { config, activate: true } });
    return (await answer.json()).experiment.id;
}

test("slots and agents are taken out of service and let back", async () => {
    const page = await signedIn("admin");
    await page.goto("/cluster?agent=agent-1");
    const agent = page.getByRole("dialog", { name: "Agent agent-1" });
    await agent.getByRole("button", { name: "Drain slot 1" }).click();
    await see(agent.getByRole("row", { name: /^1 / }).getByText(/Draining|Disabled/));
    await agent.getByRole("button", { name: "Enable slot 1" }).click();
    await see(agent.getByRole("button", { name: "Drain slot 1" }));
    await page.keyboard.press("Escape");
    const card = page.getByRole("article", { name: "Agent agent-1" });
    await menuAgreed(card.getByRole("button", { name: "More for agent-1" }), "Drain agent-1");
    await see(card.getByText(/at work|may be switched off/));
    await menu(card.getByRole("button", { name: "More for agent-1" }), "Enable agent-1");
    await see(card.getByText("Enabled"));
    await done(page);
    const other = await signedIn();
    await other.goto("/cluster");
    await other.getByRole("button", { name: "More for agent-1" }).click();
    await see(other.getByRole("menuitem", { name: "Slots and details" }));
    assert.equal(await other.getByRole("menuitem", { name: /Drain/ }).count(), 0);
    await done(other);
});

test("an agent that is disabled at once lets go of what runs there", async () => {
    const page = await signedIn("admin");
    const { child, remove } = startAgent("lame");
    await page.goto("/cluster");
    const card = page.getByRole("region", { name: "Pool lame" }).getByRole("article", { name: "Agent lame" });
    const button = card.getByRole("button", { name: "More for lame" });
    await see(card.getByText("Enabled"));
    const id = await submitTo(page, "lame");
    await see(card.getByRole("link", { name: /on-lame/ }));
    await menu(button, "Disable lame now");
    await see(page.getByRole("dialog").getByText(/1 slot in use is stopped/));
    await page.keyboard.press("Escape");
    await menuAgreed(button, "Disable lame now");
    await see(card.getByText("Disabled"));
    await gone(card.getByRole("link", { name: /on-lame/ }));
    await menu(button, "Enable lame");
    await see(card.getByText("Enabled"));
    await see(card.getByRole("link", { name: /on-lame/ })); // it goes on
    await page.request.post(`/api/v1/experiments/${id}/kill`, { headers });
    await gone(card.getByRole("link", { name: /on-lame/ }));
    child.kill("SIGKILL");
    await see(card.getByText("Lost"));
    await menuAgreed(button, "Forget lame");
    await gone(card);
    await page.request.delete(`/api/v1/experiments/${id}`, { headers });
    await done(page);
    remove();
});

test("an agent that dies stays on the page, with what it ran, until it is forgotten", async () => {
    const page = await signedIn("admin");
    const { child, remove } = startAgent("spare");
    await page.goto("/cluster");
    const pool = page.getByRole("region", { name: "Pool spare" });
    const card = pool.getByRole("article", { name: "Agent spare" });
    await see(card.getByText("Enabled"));
    const id = await submitTo(page, "spare");
    await see(card.getByRole("link", { name: /on-spare/ }));
    child.kill("SIGKILL");
    await until("its experiment says so", async () => {
        const why = await page.request.get(`/api/v1/experiments/${id}/why`);
        return /^runs on agent spare, which is not heard now/.test((await why.json()).reason);
    });
    await see(card.getByText("Not heard"));
    await see(card.getByText("Lost"));
    await see(card.getByText(/Last heard .* It ran/));
    await see(card.locator(".agent-ran").getByRole("link", { name: /on-spare/ }));
    await see(card.locator(".agent-ran").getByText("Queued"));
    await see(pool.getByText("1 lost"));
    await page.goto("/");
    await see(pool.getByText("1 more not heard"));
    await page.goto("/cluster");
    await see(pool.getByText("1 lost"));
    assert.deepEqual(await faultsOf(page), []);
    await page.request.post(`/api/v1/experiments/${id}/kill`, { headers });
    await menuAgreed(card.getByRole("button", { name: "More for spare" }), "Forget spare");
    await gone(pool);
    await page.request.delete(`/api/v1/experiments/${id}`, { headers });
    await done(page);
    remove();
});

test("what more machines would have done, and the history of use as a file", async () => {
    const page = await signedIn("admin");
    await page.goto("/cluster?tab=whatif");
    await see(page.getByText(/With 2 more agents of 2 slots/));
    await page.getByRole("spinbutton", { name: "More agents" }).fill("3");
    await page.keyboard.press("Tab");
    await see(page.getByText(/With 3 more agents of 2 slots/));
    await page.goto("/cluster?tab=history");
    await see(page.getByRole("row", { name: /^All/ }));
    await page.getByRole("combobox", { name: "By" }).selectOption({ index: 1 });
    await until("the address says so", () => /by=/.test(page.url()));
    await settled(page);
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: "Download as CSV" }).click(),
    ]);
    assert.equal(await saved.failure(), null);
    assert.equal(saved.suggestedFilename(), "use.csv");
    await done(page);
});
