import assert from "node:assert/strict";
import { test } from "node:test";
import { complete, errorColumn, type FilterField, quoteName, quoteValue } from "../src/lib/filter";

const field = (name: string, type: string, more: Partial<FilterField> = {}): FilterField => ({
    name,
    type,
    sortable: true,
    optional: false,
    help: "",
    ...more,
});
const fields = [
    field("state", "state", { names: ["RUNNING", "PAUSED"] }),
    field("label", "text", { names: ["vision", "two words"], optional: true }),
    field("started", "time"),
    field("archived", "flag"),
    field("validation", "metric", { names: ["loss", "top 5"] }),
    field("hparams", "hparam", { names: ["lr", "optimizer.name"] }),
];

/** The suggestions at the | in a text. */
function offered(text: string): string[] {
    const caret = text.indexOf("|");
    return complete(fields, text.replace("|", ""), caret).suggestions.map((one) => one.text);
}

test("names are suggested at the start and after and, or, not and parentheses", () => {
    for (const text of ["|", "not |", "(|", "state = RUNNING and |", "(archived or |"])
        assert.ok(offered(text).includes("validation.loss"), text);
    assert.deepEqual(offered("val|"), ["validation.loss", 'validation."top 5"']);
    assert.deepEqual(offered("hparams.o|"), ["hparams.optimizer.name"]);
});

test("operators depend on the type of the field", () => {
    assert.deepEqual(offered("state |"), ["=", "!=", "in ("]);
    assert.ok(offered("validation.loss |").includes("<="));
    assert.ok(offered("label |").includes("~") && offered("label |").includes("and"));
    assert.deepEqual(offered("archived |"), ["and", "or"]);
});

test("values in use are suggested, quoted if necessary", () => {
    assert.deepEqual(offered("state = |"), ["RUNNING", "PAUSED"]);
    assert.deepEqual(offered("state in (RUNNING, P|"), ["PAUSED"]);
    assert.deepEqual(offered('label = "two|'), ['"two words"']);
    assert.ok(offered("started > |").includes("-7d"));
});

test("connectives are suggested after a complete condition", () => {
    assert.deepEqual(offered("state = RUNNING |"), ["and", "or"]);
    assert.deepEqual(offered("label in (vision) |"), ["and", "or"]);
});

test("a suggestion replaces the word at the caret", () => {
    const found = complete(fields, "state = RU and archived", 10);
    assert.deepEqual([found.from, found.to], [8, 10]);
});

test("quoting of values and names, and the column of an error", () => {
    assert.equal(quoteValue('say "hi"'), '"say \\"hi\\""');
    assert.equal(quoteValue("and"), '"and"');
    assert.equal(quoteName("validation", "top 5"), 'validation."top 5"');
    assert.equal(quoteName("hparams", "optimizer.name"), "hparams.optimizer.name");
    assert.equal(errorColumn("filter, column 19: validation takes a number"), 18);
    assert.equal(errorColumn("no such thing"), undefined);
});
