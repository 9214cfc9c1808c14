import assert from "node:assert/strict";
import test from "node:test";
import { metadataLines, parseMetadata } from "../src/pages/registry/metadata_lines";

test("metadata is unchanged after writing and parsing", () => {
    const metadata = {
        task: "classification",
        classes: "2",
        accuracy: 0.98,
        link: "https://example.com/a: b",
        empty: "",
        spaced: " x ",
        quoted: '"x"',
        lines: "a\nb",
        list: [1, "two", { three: null }],
        no: false,
    };
    assert.deepEqual(parseMetadata(metadataLines(metadata)), metadata);
});

test("a line without name: value is an error", () => {
    assert.deepEqual(parseMetadata("\na: 1\n\n"), { a: 1 });
    assert.throws(() => parseMetadata("no colon"), /"no colon" does not have the form "name: value"/);
    assert.throws(() => parseMetadata(": x"), /does not have the form/);
});
