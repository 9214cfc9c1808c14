import assert from "node:assert/strict";
import test from "node:test";
import { factLines, readFacts } from "../src/pages/registry/facts";

test("metadata comes back from its lines as it was", () => {
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
    assert.deepEqual(readFacts(factLines(metadata)), metadata);
});

test("a line that is not like name: value is told", () => {
    assert.deepEqual(readFacts("\na: 1\n\n"), { a: 1 });
    assert.throws(() => readFacts("no colon"), /"no colon" is not like "name: value"/);
    assert.throws(() => readFacts(": x"), /not like/);
});
