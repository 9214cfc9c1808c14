import assert from "node:assert/strict";
import test from "node:test";
import { deltaText, flattenSettings, shortNumber, compareSettings } from "../src/pages/compare/differences";

test("settings are flattened and compared; a list is one value", () => {
    const one = flattenSettings({ a: { b: 1, c: "x" }, list: [1, 2] });
    assert.deepEqual([...one], [["a.b", "1"], ["a.c", "x"], ["list", "[1,2]"]]);
    const rows = compareSettings([one, flattenSettings({ a: { b: 2, c: "x" }, list: [1, 2], more: null })]);
    assert.deepEqual(
        rows.filter((row) => row.differs),
        [
            { path: "a.b", values: ["1", "2"], differs: true },
            { path: "more", values: [undefined, "null"], differs: true },
        ],
    );
});

test("only long numbers are shortened", () => {
    assert.equal(shortNumber("0.01407971246914918"), "0.0140797");
    assert.equal(shortNumber("0.001"), "0.001");
    assert.equal(shortNumber("2026-11-21T10:00"), "2026-11-21T10:00");
});

test("a difference has a sign, and a percentage of the baseline", () => {
    assert.equal(deltaText(1.1, 1), "+0.1 (+10 %)");
    assert.equal(deltaText(0.5, 1), "−0.5 (−50 %)");
    assert.equal(deltaText(90, 1), "+89 (×90)");
    assert.equal(deltaText(1, 1), "±0 (±0 %)");
    assert.equal(deltaText(-1, 1), "−2");
    assert.equal(deltaText(1, 0), "+1");
});
