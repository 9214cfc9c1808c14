// The form for a new experiment.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import {
    expectCopied, closePage, findProblems, expectHidden, master, expectVisible, openSignedIn, waitUntil,
} from "../browser.mjs";

const configEditor = (page) => page.getByRole("textbox", { name: "Configuration" });
const expectValid = (page) => expectVisible(page.getByText("The configuration is valid."));

/** Kills and deletes the experiment of a test, so that other tests do not see it. */
async function removeExperiment(page, id) {
    const headers = { Origin: new URL(page.url()).origin };
    await page.request.post(`/api/v1/experiments/${id}/kill`, { headers });
    await page.request.delete(`/api/v1/experiments/${id}`, { headers });
}

test("an example is submitted with the user's own file", async () => {
    const page = await openSignedIn();
    await page.goto("/");
    await page.getByRole("link", { name: "New experiment" }).click();
    await page.getByRole("button", { name: /Run your own program/ }).click();
    const script = { name: "run.sh", mimeType: "text/x-sh", buffer: Buffer.from("#!/bin/sh\necho mine\n") };
    await page.getByLabel("Add files").setInputFiles(script);
    await expectVisible(page.getByText("1 file, 20 B"));
    await expectValid(page);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await expectVisible(page.getByRole("heading", { name: /script/ }));
    const id = page.url().split("/").at(-1);
    const answer = await page.request.post(`/api/v1/experiments/${id}/file`, {
        data: { path: "run.sh" },
        headers: { Origin: new URL(page.url()).origin },
    });
    const { file } = await answer.json();
    assert.equal(Buffer.from(file, "base64").toString(), "#!/bin/sh\necho mine\n");
    await removeExperiment(page, id);
    await closePage(page);
});

test("a new cluster leads to the form, which contains an example", async () => {
    const page = await openSignedIn();
    const none = { experiments: [], pagination: { offset: 0, limit: 1, total: 0, startIndex: 0, endIndex: 0 } };
    await page.route(/\/experiments\?(?=.*limit=1(&|$))/, (route) => route.fulfill({ json: none }));
    await page.goto("/");
    const greeting = page.getByRole("region", { name: "Run your first experiment" });
    await expectVisible(greeting.getByText("2 agents connected"));
    assert.deepEqual(await findProblems(page), []);
    await greeting.getByRole("link", { name: "New experiment" }).click();
    await expectVisible(page.getByText("1 file,"));
    await expectValid(page);
    assert.match(await configEditor(page).inputValue(), /^# A small network/);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await expectVisible(page.getByRole("heading", { name: "spirals", level: 1 }));
    await removeExperiment(page, page.url().split("/").at(-1));
    await closePage(page);
});

test("an error in the configuration is marked at its line", async () => {
    const page = await openSignedIn();
    await page.goto("/experiments/new");
    await expectValid(page);
    const text = await configEditor(page).inputValue();
    await configEditor(page).fill(text.replace("micro_batch_size: 32", "micro_batch_size: 33"));
    await expectVisible(page.getByText(/Line \d+, column \d+: trainer\.micro_batch_size: 33/));
    const line = text.split("\n").findIndex((one) => one.includes("micro_batch_size: 32")) + 1;
    assert.deepEqual(await page.locator(".editor-error").allInnerTexts(), [String(line)]);
    assert.ok(await page.getByRole("button", { name: "Create", exact: true }).isDisabled());
    await page.getByRole("button", { name: /Search hyper/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Replace" }).click();
    await expectValid(page);
    await closePage(page);
});

// --- folders -------------------------------------------------------------------------------------

/** A folder with files to upload, and files that its rules ignore. */
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

/** Drops local files and folders on the page. */
async function dropFiles(page, ...files) {
    const session = await page.context().newCDPSession(page);
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"])
        await session.send("Input.dispatchDragEvent", { type, x: 700, y: 500, data });
}

const filePaths = (page) => page.getByRole("list", { name: "Files" }).getByRole("listitem").locator(".new-file").allInnerTexts();

async function expectUploadedFiles(page) {
    await expectVisible(page.getByText("2 files, 32 B"));
    assert.deepEqual(await filePaths(page), ["lib/model.py", "run.sh"]);
    await page.getByText("5 paths ignored").click();
    const out = await page.getByRole("list", { name: "Ignored" }).getByRole("listitem").allInnerTexts();
    assert.deepEqual(out, [".detignore", ".git/", ".musterignore", "data/", "lib/notes.log"]);
}

test("a folder is chosen or dropped, and its ignore rules apply; files are dropped", async () => {
    const page = await openSignedIn();
    const folder = makeFolder();
    await page.goto("/experiments/new");
    await page.getByRole("button", { name: /Run your own program/ }).click();
    await page.getByLabel("Add a folder").setInputFiles(folder);
    await expectUploadedFiles(page);
    await page.getByRole("button", { name: "Remove all" }).click();
    await expectVisible(page.getByText("none"));
    await dropFiles(page, folder);
    await expectUploadedFiles(page);
    await dropFiles(page, join(folder, "lib/notes.log")); // an explicitly dropped file is not ignored
    await expectVisible(page.getByText("3 files, 39 B"));
    await page.getByRole("button", { name: "Remove notes.log" }).click();
    writeFileSync(join(folder, "own.yaml"), `name: dropped\nentrypoint: sh run.sh\nsearcher: {name: single, metric: none}\n`);
    await dropFiles(page, join(folder, "own.yaml")); // a configuration
    await waitUntil("it is in the editor", async () => (await configEditor(page).inputValue()).startsWith("name: dropped"));
    await expectVisible(page.getByText("2 files, 32 B"));

    await expectValid(page);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await page.getByRole("tab", { name: "Configuration" }).click();
    await expectVisible(page.getByRole("button", { name: "lib/model.py" }));
    assert.equal(await page.getByRole("button", { name: /notes\.log|points\.csv|HEAD/ }).count(), 0);
    await removeExperiment(page, page.url().match(/experiments\/(\d+)/)[1]);
    await closePage(page);
});

test("files that are too large are refused before the upload", async () => {
    const page = await openSignedIn();
    const folder = makeFolder();
    writeFileSync(join(folder, "lib/huge.bin"), "");
    truncateSync(join(folder, "lib/huge.bin"), 95_000_000);
    await page.goto("/experiments/new");
    await expectValid(page);
    await dropFiles(page, folder);
    await expectVisible(page.getByRole("alert").getByText(/have 95\.0 MB.*The largest: lib\/huge\.bin \(95\.0 MB\).*\.musterignore/));
    for (const name of ["Create", "Create paused"])
        assert.ok(await page.getByRole("button", { name, exact: true }).isDisabled());
    await page.getByRole("button", { name: "Remove lib/huge.bin" }).click();
    await expectHidden(page.getByRole("alert"));
    assert.ok(await page.getByRole("button", { name: "Create", exact: true }).isEnabled());
    await closePage(page);
});

test("a template and a project are chosen, and are in the copied command", async () => {
    const admin = await openSignedIn("admin");
    const headers = { Origin: master };
    const template = { name: "single", config: { searcher: { name: "single", metric: "none" }, max_restarts: 3 } };
    const made = await admin.request.post("/api/v1/templates/single", { data: template, headers });
    assert.equal(made.status(), 200, await made.text());

    const page = await openSignedIn();
    await page.goto("/experiments/new");
    await configEditor(page).fill("name: of-a-template\nentrypoint: sh run.sh\n");
    await expectVisible(page.getByText(/searcher/).last());
    await page.getByRole("combobox", { name: "Template" }).selectOption("single");
    await expectVisible(page.getByRole("region", { name: "Template single" }).or(page.getByLabel("Template single")));
    await expectValid(page);
    const project = page.getByRole("combobox", { name: "Project" });
    await project.selectOption({ label: "Vision / letters" });
    const projectId = await project.inputValue();
    await dropFiles(page, makeFolder());
    await expectVisible(page.getByText("2 files, 32 B"));
    await page.getByRole("button", { name: "Copy as muster command" }).click();
    await expectCopied(page, `muster experiment create experiment.yaml mine --project-id ${projectId} --template single`);
    await page.getByRole("button", { name: "Create paused" }).click();
    await page.waitForURL(/\/experiments\/\d+$/);
    await expectVisible(page.getByRole("link", { name: "Vision / letters" }));
    const id = page.url().split("/").at(-1);
    const { experiment } = await (await page.request.get(`/api/v1/experiments/${id}`)).json();
    assert.equal(experiment.config.max_restarts, 3);
    await removeExperiment(page, id);
    await admin.request.delete("/api/v1/templates/single", { headers });
    await closePage(page);
    await closePage(admin);
});
