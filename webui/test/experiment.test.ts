import assert from "node:assert/strict";
import { test } from "node:test";
import { correlationRatio, flatten, ranks, spearman, varyingNames } from "../src/lib/experiment/hyperparameters";
import { itemAt, rebin, thin, valueRange } from "../src/lib/experiment/media";
import { linesFromSeries, metricNames, stepsInRange, metricTitle } from "../src/lib/experiment/metrics";
import { auditText, totalRunSeconds, endReason, startReason } from "../src/lib/experiment/starts";
import { remainingSeconds, stoppedEarly } from "../src/lib/experiment/state";
import { projectTitle } from "../src/lib/projects";
import type { Start } from "../src/lib/types";

const start = (more: Partial<Start>): Start => ({
    allocationId: "1.1.1",
    trialId: 1,
    epoch: 1,
    state: "STATE_TERMINATED",
    slots: 1,
    agents: [],
    parts: [],
    reason: "",
    cause: "",
    endTime: "2026-11-21T09:00:00Z",
    ...more,
});

test("equal values get the mean of their ranks", () => {
    assert.deepEqual(ranks([30, 10, 20, 20]), [4, 1, 2.5, 2.5]);
});

test("rank correlation depends only on the order, and is 0 without variation", () => {
    assert.equal(spearman([1, 10, 100, 1000], [1, 2, 3, 4]), 1);
    assert.equal(spearman([1, 2, 3], [9, 5, 1]), -1);
    assert.equal(spearman([7, 7, 7], [1, 2, 3]), 0);
});

test("the correlation ratio is near 1 if the words determine the metric", () => {
    assert.equal(correlationRatio(["a", "b", "a", "b"], [1, 1, 1, 1]), 0);
    assert.ok(correlationRatio(["a", "a", "b", "b"], [1, 2, 9, 10]) > 0.85);
    assert.ok(correlationRatio(["a", "b", "a", "b"], [1, 2, 9, 10]) < 0.5);
});

test("hyperparameters are flattened, and the varying ones found", () => {
    const one = flatten({ optimizer: { lr: 1, name: "sgd" }, deep: true, layers: [1, 2] });
    assert.deepEqual(
        [...one],
        [
            ["optimizer.lr", 1],
            ["optimizer.name", "sgd"],
            ["deep", "true"],
            ["layers", "[1,2]"],
        ],
    );
    assert.deepEqual(
        varyingNames([one, flatten({ optimizer: { lr: 2, name: "sgd" }, deep: true, layers: [1, 2] })]),
        ["optimizer.lr"],
    );
});

test("validation metrics and losses come first; words are no metrics", () => {
    const number = { type: "number", last: 1 };
    const summaryMetrics = {
        avg_metrics: { speed: number, loss: number, note: { type: "string" } },
        validation_metrics: { accuracy: number },
        gpu: { heat: number },
    };
    const names = metricNames([{ summaryMetrics }, {}]).map(({ group, name }) => `${group}.${name}`);
    assert.deepEqual(names, ["validation.accuracy", "training.loss", "training.speed", "gpu.heat"]);
});

test("a range of x is converted to steps, with one more point on either side", () => {
    const series = {
        metric: "loss",
        total: 4,
        shown: 4,
        steps: [0, 10, 20, 30],
        times: [100, 101, 105, 110],
        values: [4, 3, 2, 1],
    };
    const [line] = linesFromSeries([series], "elapsed", { id: "1", label: "", start: 100 });
    assert.deepEqual(Array.from(line!.x), [0, 1, 5, 10]);
    assert.deepEqual(stepsInRange(line!, series.steps, { from: 2, to: 6 }), { from: 10, to: 30 });
});

test("the end reason of a start, and the reason of the next start", () => {
    const moved = start({
        cause: "SHARE",
        preemptedForTrialId: 7,
        reason: "left when it was asked to",
    });
    assert.match(endReason(moved), /below its share \(trial 7\)/);
    assert.equal(endReason(start({ reason: "rank 0: exit 3" })), "rank 0: exit 3");
    assert.equal(endReason(start({})), "ended normally");
    assert.equal(endReason(start({ endTime: null })), "");
    assert.equal(startReason(undefined), "first start");
    assert.equal(startReason(start({ reason: "rank 0: exit 3" })), "after: rank 0: exit 3");
});

test("the title of a metric includes its group if the name does not", () => {
    assert.equal(metricTitle({ group: "validation", name: "validation_loss" }), "validation_loss");
    assert.equal(metricTitle({ group: "validation", name: "loss" }), "validation loss");
    assert.equal(metricTitle({ group: "training", name: "loss" }), "training loss");
    assert.equal(metricTitle({ group: "training", name: "accuracy" }), "training accuracy");
    assert.equal(metricTitle({ group: "training", name: "step_ms" }), "step_ms");
});

test("the run time sums up all starts; a running one counts until now", () => {
    const at = (second: number) => new Date(1000 * second).toISOString();
    const starts = [
        { startTime: at(10), endTime: at(14) },
        { startTime: at(100), endTime: null },
        { startTime: null, endTime: null },
    ];
    assert.equal(totalRunSeconds(starts, 102_000), 6);
    assert.equal(totalRunSeconds([], 102_000), 0);
});

test("a completed trial of a search with partial progress was stopped early", () => {
    const search = { searcherType: "async_halving" };
    assert.ok(stoppedEarly({ state: "STATE_COMPLETED", progress: 0.25 }, search));
    assert.ok(!stoppedEarly({ state: "STATE_COMPLETED", progress: 1 }, search));
    assert.ok(!stoppedEarly({ state: "STATE_COMPLETED" }, search)); // no progress reported
    assert.ok(!stoppedEarly({ state: "STATE_ERROR", progress: 0.25 }, search));
    assert.ok(!stoppedEarly({ state: "STATE_COMPLETED", progress: 0.25 }, { searcherType: "single" }));
});

test("audit rows as text", () => {
    const of = (path: string, status = 200, detail = "") =>
        auditText({ path: `/api/v1/experiments/${path}`, status, username: "ann", detail }, 5);
    assert.equal(of("5/activate"), "Resumed by ann");
    assert.equal(of("continue", 200, "id=5, overrideConfig"), "Continued by ann");
    assert.equal(of("continue", 200, "id=55"), "");
    assert.equal(of("5/kill", 403), "");
    assert.equal(of("55/kill"), "");
    assert.equal(of("5/archive"), "");
});

test("a project with the name of its team has a short title", () => {
    assert.equal(projectTitle({ workspaceName: "Vision", projectName: "letters" }), "Vision / letters");
    assert.equal(projectTitle({ workspaceName: "Uncategorized", projectName: "Uncategorized" }), "Uncategorized");
});

test("the remaining time is unknown at the very start", () => {
    assert.equal(remainingSeconds(0, 10), undefined);
    assert.equal(remainingSeconds(0.25, 10), 30);
    assert.equal(remainingSeconds(0.25, 10, 2), 15);
});

test("the step of a slider chooses the newest item at or before it", () => {
    const items = [{ step: 10 }, { step: 20 }, { step: 40 }];
    assert.equal(itemAt(items, undefined), 2);
    assert.deepEqual(
        [0, 10, 19, 20, 39, 40, 999].map((step) => itemAt(items, step)),
        [0, 0, 0, 1, 1, 2, 2],
    );
    assert.equal(itemAt([], undefined), -1);
});

test("thinned items keep the first and the last", () => {
    const items = Array.from({ length: 100 }, (_, i) => i);
    const some = thin(items, 5);
    assert.equal(some.length, 5);
    assert.deepEqual([some[0], some[4]], [0, 99]);
    assert.deepEqual(thin([1, 2], 5), [1, 2]);
});

test("histograms are counted again over a common range", () => {
    const narrow = { edges: [0, 1, 2], counts: [4, 8] };
    const wide = { edges: [-2, 2], counts: [8] };
    assert.deepEqual(valueRange([narrow, wide]), [-2, 2]);
    assert.deepEqual(rebin(narrow, [-2, 2], 4), [0, 0, 4, 8]);
    assert.deepEqual(rebin(wide, [-2, 2], 4), [2, 2, 2, 2]);
    assert.deepEqual(rebin(narrow, [0, 2], 4), [2, 2, 4, 4]);
});
