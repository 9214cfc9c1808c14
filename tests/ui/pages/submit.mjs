// A new experiment, from nothing but the browser.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { copied, done, faultsOf, gone, master, see, signedIn, until } from "../browser.mjs";

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

test("whoever has only the browser begins with the form, which is filled", async () => {
    const page = await signedIn();
    const none = { experiments: [], pagination: { offset: 0, limit: 1, total: 0, startIndex: 0, endIndex: 0 } };
    await page.route(/\/experiments\?(?=.*limit=1(&|$))/, (route) => route.fulfill({ json: none }));
    await page.goto("/");
    const greeting = page.getByRole("region", { name: "A first experiment" });
    await see(greeting.getByText("2 agents connected"));
    assert.deepEqual(await faultsOf(page), []);
    await greeting.getByRole("link", { name: "New experiment" }).click();
    await see(page.getByText("1 file,"));
    await taken(page);
    assert.match(await editor(page).inputValue(), /^# A small network/);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await see(page.getByRole("heading", { name: "spirals", level: 1 }));
    await remove(page, page.url().split("/").at(-1));
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

// --- folders -------------------------------------------------------------------------------------

/** A folder with what goes along, and what its rules leave out. */
function makeFolder() {
    const folder = join(mkdtempSync(join(tmpdir(), "muster-ui.")), "mine");
    const put = (path, content) => {
        mkdirSync(dirname(join(folder, path)), { recursive: true });
        writeFileSync(join(folder, path), content);
    };
    put("run.sh", "#!/bin/sh\nsleep 1000\n");
    put("lib/model.py", "layers = 2\n");
    put("lib/notes.log", "a note\n");
    put("data/points.csv", "1,2\n");
    put(".git/HEAD", "ref: refs/heads/main\n");
    put(".detignore", "*.log\ndata/\n");
    put(".musterignore", ".*ignore\n");
    return folder;
}

/** Lets go of files and folders of this machine above the page. */
async function drop(page, ...files) {
    const session = await page.context().newCDPSession(page);
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"])
        await session.send("Input.dispatchDragEvent", { type, x: 700, y: 500, data });
}

const paths = (page) => page.getByRole("list", { name: "Files" }).getByRole("listitem").locator(".new-file").allInnerTexts();

async function hasWhatGoesAlong(page) {
    await see(page.getByText("2 files, 32 B"));
    assert.deepEqual(await paths(page), ["lib/model.py", "run.sh"]);
    await page.getByText("5 paths left out").click();
    const out = await page.getByRole("list", { name: "Left out" }).getByRole("listitem").allInnerTexts();
    assert.deepEqual(out, [".detignore", ".git/", ".musterignore", "data/", "lib/notes.log"]);
}

test("a folder is chosen, or dropped, and obeys its rules; a file is dropped", async () => {
    const page = await signedIn();
    const folder = makeFolder();
    await page.goto("/experiments/new");
    await page.getByRole("button", { name: /Run a program/ }).click();
    await page.getByLabel("Add a folder").setInputFiles(folder);
    await hasWhatGoesAlong(page);
    await page.getByRole("button", { name: "Leave all out" }).click();
    await see(page.getByText("none"));
    await drop(page, folder);
    await hasWhatGoesAlong(page);
    await drop(page, join(folder, "lib/notes.log")); // by itself: it is wanted
    await see(page.getByText("3 files, 39 B"));
    await page.getByRole("button", { name: "Leave out notes.log" }).click();
    writeFileSync(join(folder, "own.yaml"), `name: dropped\nentrypoint: sh run.sh\nsearcher: {name: single, metric: none}\n`);
    await drop(page, join(folder, "own.yaml")); // a configuration
    await until("it stands in the editor", async () => (await editor(page).inputValue()).startsWith("name: dropped"));
    await see(page.getByText("2 files, 32 B"));

    await taken(page);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await page.getByRole("tab", { name: "Configuration" }).click();
    await see(page.getByRole("button", { name: "lib/model.py" }));
    assert.equal(await page.getByRole("button", { name: /notes\.log|points\.csv|HEAD/ }).count(), 0);
    await remove(page, page.url().match(/experiments\/(\d+)/)[1]);
    await done(page);
});

test("more than an experiment takes is refused before it is sent", async () => {
    const page = await signedIn();
    const folder = makeFolder();
    writeFileSync(join(folder, "lib/huge.bin"), "");
    truncateSync(join(folder, "lib/huge.bin"), 95_000_000);
    await page.goto("/experiments/new");
    await taken(page);
    await drop(page, folder);
    await see(page.getByRole("alert").getByText(/have 95\.0 MB.*The largest: lib\/huge\.bin \(95\.0 MB\).*\.musterignore/));
    for (const name of ["Create", "Create paused"])
        assert.ok(await page.getByRole("button", { name, exact: true }).isDisabled());
    await page.getByRole("button", { name: "Leave out lib/huge.bin" }).click();
    await gone(page.getByRole("alert"));
    assert.ok(await page.getByRole("button", { name: "Create", exact: true }).isEnabled());
    await done(page);
});

test("a template and a project are chosen, here and in the command to copy", async () => {
    const admin = await signedIn("admin");
    const headers = { Origin: master };
    const template = { name: "single", config: { searcher: { name: "single", metric: "none" }, max_restarts: 3 } };
    const made = await admin.request.post("/api/v1/templates/single", { data: template, headers });
    assert.equal(made.status(), 200, await made.text());

    const page = await signedIn();
    await page.goto("/experiments/new");
    await editor(page).fill("name: of-a-template\nentrypoint: sh run.sh\n");
    await see(page.getByText(/searcher/).last());
    await page.getByRole("combobox", { name: "Template" }).selectOption("single");
    await see(page.getByRole("region", { name: "Template single" }).or(page.getByLabel("Template single")));
    await taken(page);
    const project = page.getByRole("combobox", { name: "Project" });
    await project.selectOption({ label: "Vision / letters" });
    const projectId = await project.inputValue();
    await drop(page, makeFolder());
    await see(page.getByText("2 files, 32 B"));
    await page.getByRole("button", { name: "Copy as muster command" }).click();
    await copied(page, `muster experiment create experiment.yaml mine --project-id ${projectId} --template single`);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await see(page.getByRole("link", { name: "Vision / letters" }));
    const id = page.url().split("/").at(-1);
    const { experiment } = await (await page.request.get(`/api/v1/experiments/${id}`)).json();
    assert.equal(experiment.config.max_restarts, 3);
    await remove(page, id);
    await admin.request.delete("/api/v1/templates/single", { headers });
    await done(page);
    await done(admin);
});
