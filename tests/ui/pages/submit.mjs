// A new experiment, from nothing but the browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { done, faultsOf, see, signedIn } from "../browser.mjs";

const editor = (page) => page.getByRole("textbox", { name: "Configuration" });
const taken = (page) => see(page.getByText("The master would take it."));

/** Ends and deletes what a test has made, so that no other test meets it. */
async function remove(page, id) {
    const headers = { Origin: new URL(page.url()).origin };
    await page.request.post(`/api/v1/experiments/${id}/kill`, { headers });
    await page.request.delete(`/api/v1/experiments/${id}`, { headers });
}

test("an example becomes an experiment, with one's own file", async () => {
    const page = await signedIn();
    await page.goto("/");
    await page.getByRole("link", { name: "New experiment" }).click();
    await page.getByRole("button", { name: /Run a program/ }).click();
    const script = { name: "run.sh", mimeType: "text/x-sh", buffer: Buffer.from("#!/bin/sh\necho mine\n") };
    await page.getByLabel("Add files").setInputFiles(script);
    await see(page.getByText("1 file, 20 B"));
    await taken(page);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await see(page.getByRole("heading", { name: /script/ }));
    const id = page.url().split("/").at(-1);
    const answer = await page.request.post(`/api/v1/experiments/${id}/file`, {
        data: { path: "run.sh" },
        headers: { Origin: new URL(page.url()).origin },
    });
    const { file } = await answer.json();
    assert.equal(Buffer.from(file, "base64").toString(), "#!/bin/sh\necho mine\n");
    await remove(page, id);
    await done(page);
});

test("what the master would not take is marked where it stands", async () => {
    const page = await signedIn();
    await page.goto("/experiments/new");
    await taken(page);
    const text = await editor(page).inputValue();
    await editor(page).fill(text.replace("micro_batch_size: 32", "micro_batch_size: 33"));
    await see(page.getByText(/Line \d+, column \d+: trainer\.micro_batch_size: 33/));
    const line = text.split("\n").findIndex((one) => one.includes("micro_batch_size: 32")) + 1;
    assert.deepEqual(await page.locator(".editor-wrong").allInnerTexts(), [String(line)]);
    assert.ok(await page.getByRole("button", { name: "Create", exact: true }).isDisabled());
    await page.getByRole("button", { name: /Search hyper/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Replace" }).click();
    await taken(page);
    await done(page);
});

for (const theme of ["light", "dark"])
    for (const width of [1440, 390])
        test(`axe finds no fault with it: ${theme}, ${width}`, async () => {
            const page = await signedIn("determined", { theme, width });
            await page.goto("/experiments/new");
            await taken(page);
            assert.deepEqual(await faultsOf(page), []);
            await done(page);
        });
