// Moving what waits: with the mouse, with the keyboard; who may, and who is told why not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, gone, master, menu, see, signedIn, until } from "../browser.mjs";

const row = (page, name) => page.locator("li[data-job]", { hasText: name });
const titles = (page) => page.locator("li[data-job] .job-title").allInnerTexts();
const inOrder = (page, ...names) => async () =>
    (await titles(page)).map((title) => title.replace(/^#\d+ /, "")).filter((name) => names.includes(name)).join() === names.join();

/** As a hand does it: pressed on the grip, moved in steps, let go in the upper or lower half of the other row. */
async function drag(page, name, other, part) {
    const from = await row(page, name).locator(".job-grip").boundingBox();
    const to = await row(page, other).boundingBox();
    await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
    await page.mouse.down();
    await page.mouse.move(to.x + 60, to.y + to.height / 2, { steps: 6 });
    await page.mouse.move(to.x + 60, to.y + part * to.height, { steps: 3 });
    await see(page.locator(part < 0.5 ? "li.job-before" : "li.job-behind"));
    await page.mouse.up();
}

test("a job is dragged before another, and behind it; everybody else sees it move", async () => {
    const page = await signedIn();
    const other = await signedIn("admin");
    await page.goto("/queue");
    await other.goto("/queue");
    await until("both wait", inOrder(page, "big-one", "big-two"));
    await drag(page, "big-two", "big-one", 0.2);
    await see(page.getByText(/big-two stands before .*big-one/));
    await until("it is the first", inOrder(page, "big-two", "big-one"));
    await until("it is so for others", inOrder(other, "big-two", "big-one"));
    await drag(other, "big-two", "big-one", 0.8); // an administrator steers what is another's
    await until("it is the second again", inOrder(page, "big-one", "big-two"));
    await done(other);
    await done(page);
});

test("who may not move a job is told why, by mouse and by keyboard", async () => {
    const page = await signedIn("victor");
    await page.goto("/queue");
    const job = row(page, "big-one");
    const why = "This takes the role editor in the workspace";
    await see(job.getByTitle(why));
    assert.equal(await job.getByRole("button").count(), 0);
    const grip = await job.locator(".job-grip").boundingBox();
    await page.mouse.move(grip.x + 8, grip.y + 8);
    await page.mouse.down();
    await page.mouse.move(grip.x + 8, grip.y + 90, { steps: 4 });
    await page.mouse.up();
    await see(page.getByText(why));
    await page.getByRole("button", { name: "Close" }).first().click();
    await gone(page.getByText(why));
    await job.getByRole("link").focus();
    await page.keyboard.press("Alt+ArrowDown");
    await see(page.getByText(why));
    await until("nothing has moved", inOrder(page, "big-one", "big-two"));
    await done(page);
});

test("a job does not go among those of another owner, and says so", async () => {
    const ada = await signedIn("ada");
    const headers = { Origin: master };
    const config = "name: of-ada\nentrypoint: sleep 600\nresources: {slots_per_trial: 4}\n" +
        "searcher: {name: single, metric: none}\n";
    const answer = await ada.request.post("/api/v1/experiments", { headers, data: { config, activate: true } });
    const { experiment } = await answer.json();
    const page = await signedIn();
    await page.goto("/queue");
    await see(row(page, "of-ada").getByTitle(/another user's/));
    const before = await titles(page);
    const from = await row(page, "big-two").locator(".job-grip").boundingBox();
    const to = await row(page, "of-ada").boundingBox();
    await page.mouse.move(from.x + 8, from.y + 8);
    await page.mouse.down();
    await page.mouse.move(to.x + 60, to.y + to.height / 2, { steps: 6 });
    await page.mouse.up();
    await see(page.getByText("It can only be moved among jobs of its owner"));
    assert.deepEqual(await titles(page), before);
    await ada.request.post(`/api/v1/experiments/${experiment.id}/kill`, { headers });
    await gone(row(page, "of-ada"));
    await ada.request.delete(`/api/v1/experiments/${experiment.id}`, { headers });
    await done(ada);
    await done(page);
});

test("Alt and an arrow move it; at the end it stays, and the row keeps the focus", async () => {
    const page = await signedIn();
    await page.goto("/queue");
    await until("both wait", inOrder(page, "big-one", "big-two"));
    await row(page, "big-two").getByRole("link").focus();
    await page.keyboard.press("Alt+ArrowDown"); // it is the last
    await page.keyboard.press("Alt+ArrowUp");
    await until("it is the first", inOrder(page, "big-two", "big-one"));
    await until("its row has the focus", () => page.evaluate(() => document.activeElement?.textContent.includes("big-two")));
    await menu(row(page, "big-one").getByRole("button", { name: /More for/ }), "Move to the front");
    await until("it is the second again", inOrder(page, "big-one", "big-two"));
    await done(page);
});

test("a priority is given, and a job paused and let wait again", async () => {
    const page = await signedIn();
    await page.goto("/queue");
    const job = row(page, "big-one");
    await menu(job.getByRole("button", { name: /More for/ }), "Priority…");
    const dialog = page.getByRole("dialog", { name: /Priority of/ });
    await dialog.getByLabel(/^Priority/).fill("100");
    await see(dialog.getByText("A whole number from 1 to 99"));
    await dialog.getByLabel(/^Priority/).fill("43");
    await dialog.getByRole("button", { name: "Change" }).click();
    await gone(dialog);
    await until("it has it", async () => /Priority\s*43/.test(await job.innerText()));
    await until("it goes last", inOrder(page, "big-two", "big-one"));
    const id = (await job.locator(".job-title").innerText()).match(/\d+/)[0];
    const headers = { Origin: master };
    await menu(job.getByRole("button", { name: /More for/ }), "Pause");
    await gone(job);
    await page.request.post(`/api/v1/experiments/${id}/activate`, { headers });
    await see(job);
    await page.request.post("/api/v1/job-queues", {
        headers,
        data: { updates: [{ jobId: await job.getAttribute("data-job"), priority: 42 }] },
    });
    await until("all is as it was", inOrder(page, "big-one", "big-two"));
    await done(page);
});
