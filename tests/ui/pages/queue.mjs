// Reordering the queue by mouse and keyboard, and the reasons shown to users who may not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { closePage, expectHidden, master, clickMenuItem, expectVisible, openSignedIn, waitUntil } from "../browser.mjs";

const jobRow = (page, name) => page.locator("li[data-job]", { hasText: name });
const jobTitles = (page) => page.locator("li[data-job] .job-title").allInnerTexts();
const isInOrder = (page, ...names) => async () =>
    (await jobTitles(page)).map((title) => title.replace(/^#\d+ /, "")).filter((name) => names.includes(name)).join() === names.join();

/** Drags a job by its grip and drops it on the upper or lower half of another row. */
async function drag(page, name, other, part) {
    const from = await jobRow(page, name).locator(".job-grip").boundingBox();
    const to = await jobRow(page, other).boundingBox();
    await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
    await page.mouse.down();
    await page.mouse.move(to.x + 60, to.y + to.height / 2, { steps: 6 });
    await page.mouse.move(to.x + 60, to.y + part * to.height, { steps: 3 });
    await expectVisible(page.locator(part < 0.5 ? "li.job-before" : "li.job-behind"));
    await page.mouse.up();
}

test("a job is dragged before and after another, and other users see it move", async () => {
    const page = await openSignedIn();
    const other = await openSignedIn("admin");
    await page.goto("/queue");
    await other.goto("/queue");
    await waitUntil("both wait", isInOrder(page, "big-one", "big-two"));
    await drag(page, "big-two", "big-one", 0.2);
    await expectVisible(page.getByText(/Moved .*big-two before .*big-one/));
    await waitUntil("it is first", isInOrder(page, "big-two", "big-one"));
    await waitUntil("others see it first", isInOrder(other, "big-two", "big-one"));
    await drag(other, "big-two", "big-one", 0.8); // administrators may move the jobs of others
    await waitUntil("it is second again", isInOrder(page, "big-one", "big-two"));
    await closePage(other);
    await closePage(page);
});

test("a user who may not move a job sees the reason, by mouse and by keyboard", async () => {
    const page = await openSignedIn("victor");
    await page.goto("/queue");
    const job = jobRow(page, "big-one");
    const why = "This requires the role editor in the workspace";
    await expectVisible(job.getByTitle(why));
    assert.equal(await job.getByRole("button").count(), 0);
    const grip = await job.locator(".job-grip").boundingBox();
    await page.mouse.move(grip.x + 8, grip.y + 8);
    await page.mouse.down();
    await page.mouse.move(grip.x + 8, grip.y + 90, { steps: 4 });
    await page.mouse.up();
    await expectVisible(page.getByText(why));
    await page.getByRole("button", { name: "Close" }).first().click();
    await expectHidden(page.getByText(why));
    await job.getByRole("link").focus();
    await page.keyboard.press("Alt+ArrowDown");
    await expectVisible(page.getByText(why));
    await waitUntil("the order is unchanged", isInOrder(page, "big-one", "big-two"));
    await closePage(page);
});

test("a job cannot be moved among the jobs of another owner", async () => {
    const ada = await openSignedIn("ada");
    const headers = { Origin: master };
    const config = "name: of-ada\nentrypoint: sleep 600\nresources: {slots_per_trial: 4}\n" +
        "searcher: {name: single, metric: none}\n";
    const answer = await ada.request.post("/api/v1/experiments", { headers, data: { config, activate: true } });
    const { experiment } = await answer.json();
    const page = await openSignedIn();
    await page.goto("/queue");
    await expectVisible(jobRow(page, "of-ada").getByTitle(/belongs to another user/));
    const before = await jobTitles(page);
    const from = await jobRow(page, "big-two").locator(".job-grip").boundingBox();
    const to = await jobRow(page, "of-ada").boundingBox();
    await page.mouse.move(from.x + 8, from.y + 8);
    await page.mouse.down();
    await page.mouse.move(to.x + 60, to.y + to.height / 2, { steps: 6 });
    await page.mouse.up();
    await expectVisible(page.getByText("You can only reorder jobs of the same owner"));
    assert.deepEqual(await jobTitles(page), before);
    await ada.request.post(`/api/v1/experiments/${experiment.id}/kill`, { headers });
    await expectHidden(jobRow(page, "of-ada"));
    await ada.request.delete(`/api/v1/experiments/${experiment.id}`, { headers });
    await closePage(ada);
    await closePage(page);
});

test("Alt with an arrow moves a job, and its row keeps the focus", async () => {
    const page = await openSignedIn();
    await page.goto("/queue");
    await waitUntil("both wait", isInOrder(page, "big-one", "big-two"));
    await jobRow(page, "big-two").getByRole("link").focus();
    await page.keyboard.press("Alt+ArrowDown"); // it is last already
    await page.keyboard.press("Alt+ArrowUp");
    await waitUntil("it is first", isInOrder(page, "big-two", "big-one"));
    await waitUntil("its row has the focus", () => page.evaluate(() => document.activeElement?.textContent.includes("big-two")));
    await clickMenuItem(jobRow(page, "big-one").getByRole("button", { name: /More actions for/ }), "Move to the front");
    await waitUntil("it is second again", isInOrder(page, "big-one", "big-two"));
    await closePage(page);
});

test("a priority is changed, and a job is paused and resumed", async () => {
    const page = await openSignedIn();
    await page.goto("/queue");
    const job = jobRow(page, "big-one");
    await clickMenuItem(job.getByRole("button", { name: /More actions for/ }), "Priority…");
    const dialog = page.getByRole("dialog", { name: /Priority of/ });
    await dialog.getByLabel(/^Priority/).fill("100");
    await expectVisible(dialog.getByText("Enter a whole number from 1 to 99"));
    await dialog.getByLabel(/^Priority/).fill("43");
    await dialog.getByRole("button", { name: "Change" }).click();
    await expectHidden(dialog);
    await waitUntil("it has the priority", async () => /Priority\s*43/.test(await job.innerText()));
    await waitUntil("it is last", isInOrder(page, "big-two", "big-one"));
    const id = (await job.locator(".job-title").innerText()).match(/\d+/)[0];
    const headers = { Origin: master };
    await clickMenuItem(job.getByRole("button", { name: /More actions for/ }), "Pause");
    await expectHidden(job);
    await page.request.post(`/api/v1/experiments/${id}/activate`, { headers });
    await expectVisible(job);
    await page.request.post("/api/v1/job-queues", {
        headers,
        data: { updates: [{ jobId: await job.getAttribute("data-job"), priority: 42 }] },
    });
    await waitUntil("the order is restored", isInOrder(page, "big-one", "big-two"));
    await closePage(page);
});
