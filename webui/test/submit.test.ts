// A new experiment: its files, and where in a configuration the master found something wrong.

import assert from "node:assert/strict";
import { File } from "node:buffer";
import { test } from "node:test";
import { readPlace } from "../src/lib/marks";
import { fromFolder, joined, refusal, totalOf } from "../src/lib/uploads";
import { examples, spirals } from "../src/pages/new_experiment/examples";

Object.assign(globalThis, { File }); // which Node 18 lacks

const upload = (path: string, content = "") => ({ path, file: new globalThis.File([content], path) });
const paths = (uploads: { path: string }[]) => uploads.map(({ path }) => path);

test("a message that names a place is marked there", () => {
    const { message, marks } = readPlace("config:3:5: searcher.name: no");
    assert.equal(message, "Line 3, column 5: searcher.name: no");
    assert.deepEqual(marks, [{ line: 3, message }]);
    assert.deepEqual(readPlace("project 9 does not exist").marks, []);
});

test("a folder's files are named from within it, without what git keeps", () => {
    const files = [upload("mine/a.py"), upload("mine/.git/HEAD"), upload("mine/lib/.gitignore")];
    assert.deepEqual(paths(fromFolder(files)), ["a.py", "lib/.gitignore"]);
});

test("a file that comes again takes the place of the former", () => {
    const all = joined([upload("b", "1"), upload("a")], [upload("b", "123")]);
    assert.deepEqual(paths(all), ["a", "b"]);
    assert.equal(totalOf(all), 3);
});

test("too much is refused with what to do", () => {
    assert.equal(refusal(100_000, 95_000_000), undefined);
    assert.match(refusal(1, 95_000_001)!, /96 MB; an experiment takes 95 MB\. Leave out/);
    assert.match(refusal(100_001, 1)!, /100001 files/);
});

test("the data of the examples is the same every time, and half of each kind", () => {
    assert.equal(spirals(), spirals());
    const kinds = spirals().trim().split("\n").slice(1).map((line) => line.split(",")[2]);
    const ones = kinds.filter((kind) => kind === "1").length;
    assert.ok(kinds.length === 3000 && ones > 1350 && ones < 1650, String(ones));
    for (const { files } of examples) assert.ok(totalOf(files()) > 0);
});
