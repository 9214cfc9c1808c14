// Agents: slots and agents are drained, disabled and enabled; a lost agent is forgotten; a simulation of more agents.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
    closePage, findProblems, expectHidden, master, clickMenuItem, expectVisible, waitForData, openSignedIn,
    clickMenuItemAndConfirm, waitUntil,
} from "../browser.mjs";

const folder = process.env.MUSTER_UI_FOLDER;

/** Starts an agent in its own pool, so that it takes no work of other tests. */
function startAgent(name) {
    const work = mkdtempSync(join(folder, "spare-"));
    const words = ["--master", master, "--token-file", join(folder, "master", "agent.token"), "--work-dir", work];
    const own = ["--id", name, "--slots", "2", "--pool", name, "--tasks-as-root"];
    const child = spawn(join(process.env.MUSTER_BIN, "muster-agent"), [...words, ...own], { stdio: "ignore" });
    return { child, remove: () => rmSync(work, { recursive: true, force: true }) };
}

const headers = { Origin: master };

/** Submits an experiment that needs one slot in the agent's pool. */
async function submitToPool(page, name) {
    const config = `name: on-${name}\nentrypoint: exec sleep 600\nresources: {slots_per_trial: 1, resource_pool: ${name}}\n` +
        "searcher: {name: single, metric: none}\nmax_restarts: 0\npreemption_timeout: 1\n";
    const answer = await page.request.post("/api/v1/experiments", { headers, data: { config, activate: true } });
    return (await answer.json()).experiment.id;
}

test("slots and agents are drained and enabled", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/cluster?agent=agent-1");
    const agent = page.getByRole("dialog", { name: "Agent agent-1" });
    await agent.getByRole("button", { name: "Drain slot 1" }).click();
    await expectVisible(agent.getByRole("row", { name: /^1 / }).getByText(/Draining|Disabled/));
    await agent.getByRole("button", { name: "Enable slot 1" }).click();
    await expectVisible(agent.getByRole("button", { name: "Drain slot 1" }));
    await page.keyboard.press("Escape");
    const card = page.getByRole("article", { name: "Agent agent-1" });
    await clickMenuItemAndConfirm(card.getByRole("button", { name: "More actions for agent-1" }), "Drain agent-1");
    await expectVisible(card.getByText(/in use|may be switched off/));
    await clickMenuItem(card.getByRole("button", { name: "More actions for agent-1" }), "Enable agent-1");
    await expectVisible(card.getByText("Enabled"));
    await closePage(page);
    const other = await openSignedIn();
    await other.goto("/cluster");
    await other.getByRole("button", { name: "More actions for agent-1" }).click();
    await expectVisible(other.getByRole("menuitem", { name: "Slots and details" }));
    assert.equal(await other.getByRole("menuitem", { name: /Drain/ }).count(), 0);
    await closePage(other);
});

test("an agent that is disabled at once stops its work", async () => {
    const page = await openSignedIn("admin");
    const { child, remove } = startAgent("lame");
    await page.goto("/cluster");
    const card = page.getByRole("region", { name: "Pool lame" }).getByRole("article", { name: "Agent lame" });
    const button = card.getByRole("button", { name: "More actions for lame" });
    await expectVisible(card.getByText("Enabled"));
    const id = await submitToPool(page, "lame");
    await expectVisible(card.getByRole("link", { name: /on-lame/ }));
    await clickMenuItem(button, "Disable lame now");
    await expectVisible(page.getByRole("dialog").getByText(/1 slot in use are stopped/));
    await page.keyboard.press("Escape");
    await clickMenuItemAndConfirm(button, "Disable lame now");
    await expectVisible(card.getByText("Disabled"));
    await expectHidden(card.getByRole("link", { name: /on-lame/ }));
    await clickMenuItem(button, "Enable lame");
    await expectVisible(card.getByText("Enabled"));
    await expectVisible(card.getByRole("link", { name: /on-lame/ })); // it restarts
    await page.request.post(`/api/v1/experiments/${id}/kill`, { headers });
    await expectHidden(card.getByRole("link", { name: /on-lame/ }));
    child.kill("SIGKILL");
    await expectVisible(card.getByText("Lost"));
    await clickMenuItemAndConfirm(button, "Forget lame");
    await expectHidden(card);
    await page.request.delete(`/api/v1/experiments/${id}`, { headers });
    await closePage(page);
    remove();
});

test("a lost agent stays on the page, with its allocations, until it is forgotten", async () => {
    const page = await openSignedIn("admin");
    const { child, remove } = startAgent("spare");
    await page.goto("/cluster");
    const pool = page.getByRole("region", { name: "Pool spare" });
    const card = pool.getByRole("article", { name: "Agent spare" });
    await expectVisible(card.getByText("Enabled"));
    const id = await submitToPool(page, "spare");
    await expectVisible(card.getByRole("link", { name: /on-spare/ }));
    child.kill("SIGKILL");
    await waitUntil("its experiment reports it", async () => {
        const why = await page.request.get(`/api/v1/experiments/${id}/why`);
        return /^runs on agent spare, which is not connected now/.test((await why.json()).reason);
    });
    await expectVisible(card.getByText("Disconnected"));
    await expectVisible(card.getByText("Lost"));
    await expectVisible(card.getByText(/Last seen .* It was running/));
    await expectVisible(card.locator(".agent-allocation").getByRole("link", { name: /on-spare/ }));
    await expectVisible(card.locator(".agent-allocation").getByText("Queued"));
    await expectVisible(pool.getByText("1 lost"));
    await page.goto("/");
    await expectVisible(pool.getByText("1 disconnected"));
    await page.goto("/cluster");
    await expectVisible(pool.getByText("1 lost"));
    assert.deepEqual(await findProblems(page), []);
    await page.request.post(`/api/v1/experiments/${id}/kill`, { headers });
    await clickMenuItemAndConfirm(card.getByRole("button", { name: "More actions for spare" }), "Forget spare");
    await expectHidden(pool);
    await page.request.delete(`/api/v1/experiments/${id}`, { headers });
    await closePage(page);
    remove();
});

test("the simulation of more agents, and the usage history as CSV", async () => {
    const page = await openSignedIn("admin");
    await page.goto("/cluster?tab=whatif");
    await expectVisible(page.getByText(/With 2 more agents of 2 slots/));
    await page.getByRole("spinbutton", { name: "Additional agents" }).fill("3");
    await page.keyboard.press("Tab");
    await expectVisible(page.getByText(/With 3 more agents of 2 slots/));
    await page.goto("/cluster?tab=history");
    await expectVisible(page.getByRole("row", { name: /^All/ }));
    await page.getByRole("combobox", { name: "By" }).selectOption({ index: 1 });
    await waitUntil("the address holds the choice", () => /by=/.test(page.url()));
    await waitForData(page);
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: "Download as CSV" }).click(),
    ]);
    assert.equal(await saved.failure(), null);
    assert.equal(saved.suggestedFilename(), "use.csv");
    await closePage(page);
});
