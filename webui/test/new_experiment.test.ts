// The form for a new experiment: its files, and diagnostics of its configuration.

import assert from "node:assert/strict";
import { File } from "node:buffer";
import { test } from "node:test";
import { parseIgnoreRules } from "../src/lib/upload/ignore_rules";
import { parseDiagnostic } from "../src/lib/config/diagnostics";
import { selectFolder, mergeUploads, missingDataPath, sizeError, totalSize } from "../src/lib/upload/uploads";
import { examples, spirals } from "../src/pages/new_experiment/examples";

Object.assign(globalThis, { File }); // Node 18 has no global File

const upload = (path: string, content = "") => ({ path, file: new globalThis.File([content], path) });
const paths = (uploads: { path: string }[]) => uploads.map(({ path }) => path);

test("a message with a position becomes a diagnostic", () => {
    const { message, diagnostics: marks } = parseDiagnostic("config:3:5: searcher.name: no");
    assert.equal(message, "Line 3, column 5: searcher.name: no");
    assert.deepEqual(marks, [{ line: 3, message }]);
    assert.equal(parseDiagnostic("overrideConfig:2:1: no").diagnostics[0]?.line, 2);
    assert.deepEqual(parseDiagnostic("project 9 does not exist").diagnostics, []);
});

/** The uploaded files of a folder, and the ignored paths. */
async function folder(files: Record<string, string>) {
    const all = Object.entries(files).map(([path, content]) => upload(`mine/${path}`, content));
    const { uploads, ignored: leftOut } = await selectFolder(all);
    return [paths(uploads).sort().join(" "), leftOut.sort().join(" ")];
}

test("paths are relative to the folder, and .git is ignored", async () => {
    assert.deepEqual(await folder({ "a.py": "", ".git/HEAD": "", "lib/.gitignore": "" }), ["a.py lib/.gitignore", ".git/"]);
});

// The cases of ignored_files_are_left_out() in tests/unit/api/test_archive.c.
test("the rules of .detignore and .musterignore apply as on the command line", async () => {
    const work: Record<string, string> = {
        "model.py": "m",
        "notes.log": "l",
        "data/big.bin": "b",
        "data/keep.log": "k",
        "src/data": "a file of that name",
        "src/deep/x.tmp": "x",
        ".git/config": "g",
    };
    const left = async (more: Record<string, string>) => folder(Object.assign(work, more));
    assert.deepEqual(await left({}), ["data/big.bin data/keep.log model.py notes.log src/data src/deep/x.tmp", ".git/"]);
    assert.deepEqual(await left({ ".detignore": "# comment\n*.log\n\ndata/\r\n" }), [
        ".detignore model.py src/data src/deep/x.tmp",
        ".git/ data/ notes.log",
    ]);
    assert.deepEqual(await left({ ".musterignore": "!notes.log\nsrc/deep/*.tmp\n/src/dat?\n.*ignore" }), [
        "model.py notes.log",
        ".detignore .git/ .musterignore data/ src/data src/deep/x.tmp",
    ]);
    assert.deepEqual(await left({ ".musterignore": "src/**.tmp\n.*ignore" }), [
        "model.py src/data",
        ".detignore .git/ .musterignore data/ notes.log src/deep/x.tmp",
    ]);
});

test("patterns match as in fnmatch", () => {
    const fits = (pattern: string, path: string, isFolder = false) => parseIgnoreRules([pattern])(path, isFolder);
    const yes = ["*.log a/.log", "[a-c]x bx", "[!a-c]x dx", "[]-]x ]x", "[]-]x -x", "\\*x *x", "[ab [ab", "a/*/c a/b/c"];
    yes.push("**/c a/b/c", "[[:digit:]]? 7x", "/a a", "a+(b) a+(b)", "? \u{1f600}");
    const no = ["*.log a.logs", "[a-c]x dx", "[!a-c]x bx", "[z-a] b", "a\\ a", "a/* a/b/c", "/a b/a", "a/b x/a/b"];
    no.push("a?b a/b", "a[/]b a/b", ". a", "a/ a");
    for (const one of yes) assert.ok(fits(...(one.split(" ") as [string, string])), one);
    for (const one of no) assert.ok(!fits(...(one.split(" ") as [string, string])), one);
    assert.ok(fits("a/", "b/a", true));
    assert.ok(!fits("!.git", ".git", true), "a negated rule overrides the default");
    assert.ok(!fits("#a", "#a"));
});

test("an added file replaces one with the same path", () => {
    const all = mergeUploads([upload("b", "1"), upload("a")], [upload("b", "123")]);
    assert.deepEqual(paths(all), ["a", "b"]);
    assert.equal(totalSize(all), 3);
});

test("too many or too large files are refused with advice", () => {
    const sized = (path: string, size: number) => ({ path, file: { size } as globalThis.File });
    const huge = [sized("a.bin", 20e6), sized("b.bin", 50e6), sized("c.bin", 25e6)];
    assert.equal(sizeError(huge), undefined);
    const said = sizeError([...huge, sized("small", 1e5)])!;
    assert.match(said, /have 95\.1 MB, but an experiment may have at most 95 MB\./);
    assert.match(said, /The largest: b\.bin \(50\.0 MB\), c\.bin \(25\.0 MB\), a\.bin \(20\.0 MB\)\. .*\.musterignore/);
    assert.equal(sizeError(Array(100_000).fill(sized("a", 1))), undefined);
    assert.match(sizeError(Array(100_001).fill(sized("a", 0)))!, /100001 files/);
});

test("the example data is deterministic and balanced", () => {
    assert.equal(spirals(), spirals());
    const kinds = spirals().trim().split("\n").slice(1).map((line) => line.split(",")[2]);
    const ones = kinds.filter((kind) => kind === "1").length;
    assert.ok(kinds.length === 3000 && ones > 1350 && ones < 1650, String(ones));
    for (const { files } of examples) assert.ok(totalSize(files()) > 0);
});

test("a data file of the trainer that is missing is named", () => {
    const config = "trainer:\n  data: {format: csv, path: spirls.csv}  # path: other.csv\n";
    assert.equal(missingDataPath(config, [upload("spirals.csv")]), "spirls.csv");
    assert.equal(missingDataPath(config, [upload("spirls.csv")]), undefined);
    assert.equal(missingDataPath("trainer:\n  data: {path: images}\n", [upload("images/1.png")]), undefined);
    assert.equal(missingDataPath("trainer:\n  data: {path: /data/all.csv}\n", []), undefined);
    assert.equal(missingDataPath("entrypoint: run\ndata: {path: all.csv}\n", []), undefined);
    for (const example of examples) assert.equal(missingDataPath(example.config, example.files()), undefined);
});
