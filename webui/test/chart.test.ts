import assert from "node:assert/strict";
import { test } from "node:test";
import { rangeCodec } from "../src/lib/chart/chart_view";
import {
    rangeWithoutSpikes, lineFromSeries, lowerBound, nearest, smoothedValues, thinningNote, ticks, timeTicks,
    indexRange, xRange, yRange,
} from "../src/lib/chart/plot";
import { compareValues, nextSort, type PageRequest, pagedRows, sortDirection } from "../src/lib/rows";

const line = (x: number[], y: number[], total?: number) => ({
    id: "a",
    label: "a",
    x,
    y,
    ...(total ? { total } : {}),
});

test("ticks are round numbers within the range", () => {
    for (const most of [1, 2, 3])
        for (const [from, to] of [[0.1, 0.93], [0, 1], [12, 30_000], [1e5, 2.2e6], [-3, 4]] as const)
            assert.ok(ticks({ from, to }, most, false).length >= 3, `${from} to ${to}, ${most}`);
    assert.ok(timeTicks({ from: 3, to: 124 }, 2, 0).length >= 3);
    assert.deepEqual(ticks({ from: 0, to: 1 }, 5, false), [0, 0.2, 0.4, 0.6, 0.8, 1]);
    assert.deepEqual(ticks({ from: 0.02, to: 300 }, 6, true), [0.1, 1, 10, 100]);
    assert.deepEqual(timeTicks({ from: 10, to: 130 }, 3, 0), [30, 60, 90, 120]);
});

test("a range is written with its visible digits, and read again", () => {
    const { read, write } = rangeCodec;
    assert.equal(write({ from: 1200.0312, to: 2400.0471 }), "1200:2400");
    assert.equal(write({ from: 0.00123456, to: 4000 }), "0.001235:4000"); // on a logarithmic axis
    assert.equal(write({ from: 1763770000.21, to: 1763770031.57 }), "1763770000.21:1763770031.57");
    assert.equal(write(null), "");
    assert.deepEqual(read("-2.5:1e3"), { from: -2.5, to: 1000 });
    for (const wrong of ["", "5", "5:", ":5", "5:5", "6:5", "a:b", "1:2:3", "0:Infinity", "NaN:1"])
        assert.equal(read(wrong), null, wrong);
});

test("indexes by x", () => {
    const x = [1, 2, 4, 8];
    assert.equal(lowerBound(x, 3), 2);
    assert.equal(nearest(x, 2.9), 1);
    assert.equal(nearest(x, 100), 3);
    assert.equal(nearest([], 1), -1);
    assert.deepEqual(indexRange(x, { from: 2, to: 3 }), [0, 4]);
});

test("spikes are cut off and counted, usual values are not", () => {
    const x = Array.from({ length: 100 }, (_, i) => i);
    const usual = x.map((i) => 1 + (i % 10) / 10); // 1 to 1.9
    assert.equal(rangeWithoutSpikes([line(x, usual)], null), undefined);
    const spiky = usual.map((y, i) => (i === 7 ? 500 : i === 70 ? -90 : i === 71 ? NaN : y));
    const { range, spikes: beyond } = rangeWithoutSpikes([line(x, spiky)], null)!;
    assert.equal(beyond, 2);
    assert.ok(range.from < 1 && range.from > 0.9 && range.to > 1.9 && range.to < 2, JSON.stringify(range));
    assert.equal(rangeWithoutSpikes([line(x, spiky)], { from: 10, to: 60 }), undefined, "no spike is visible");
    assert.equal(rangeWithoutSpikes([line(x.slice(0, 20), spiky)], null), undefined, "too few values");
    const rare = x.map((i) => (i === 50 ? 3 : 0)); // the only variation
    assert.equal(rangeWithoutSpikes([line(x, rare)], null), undefined);
    const slower = usual.map((y, i) => (i < 93 ? y : 50)); // lasts, so it is not a spike
    assert.equal(rangeWithoutSpikes([line(x, slower)], null), undefined);
});

test("ranges skip values that cannot be drawn", () => {
    const one = line([0, 10, 100], [NaN, 5, -1]);
    assert.deepEqual(xRange([one], false), { from: 0, to: 100 });
    assert.deepEqual(xRange([one], true), { from: 10, to: 100 });
    assert.ok(yRange([one], null, false).from < -1);
    assert.ok(yRange([one], null, true).from > 0);
    assert.deepEqual(yRange([], null, false), { from: 0, to: 1 });
});

test("smoothing has no bias to zero, and skips gaps", () => {
    assert.deepEqual([...smoothedValues([4, 4, 4], 0.9)], [4, 4, 4]);
    const found = smoothedValues([1, NaN, 3], 0.5);
    assert.equal(found[0], 1);
    assert.ok(Number.isNaN(found[1]));
    assert.ok(Math.abs(found[2]! - 7 / 3) < 1e-12);
});

test("a series as a line", () => {
    const series = { metric: "loss", total: 9, shown: 2, steps: [1, 5], times: [100, 160], values: [1, "NaN"] };
    const made = lineFromSeries(series, "elapsed", { id: "a", label: "a" });
    assert.deepEqual([...Array.from(made.x)], [0, 60]);
    assert.ok(Number.isNaN(made.y[1]));
    assert.equal(thinningNote([line([1, 2], [1, 2], 1_000_000)]), "2 of 1,000,000 points shown");
    assert.equal(thinningNote([line([1, 2], [1, 2])]), "");
});

test("sorting by clicks", () => {
    assert.equal(nextSort("", "a", false), "a");
    assert.equal(nextSort("a", "a", false), "-a");
    assert.equal(nextSort("-a", "a", false), "a");
    assert.equal(nextSort("-a", "b", true), "-a,b");
    assert.equal(nextSort("-a,b", "a", true), "b");
    assert.equal(sortDirection("-a,b", "a"), -1);
    assert.deepEqual([3, undefined, 1].sort((a, b) => compareValues(a, b, -1)), [3, 1, undefined]);
});

const settled = () => new Promise((done) => setTimeout(done, 5));

/** A server with `total` rows, and the requests to it. */
function server(total: number) {
    const asked: PageRequest[] = [];
    const rows = pagedRows<{ id: number }>(
        (page) => {
            asked.push(page);
            const from = page.cursor ? Number(page.cursor) : page.offset;
            const size = Math.max(0, Math.min(page.limit, total - from));
            return Promise.resolve({
                rows: Array.from({ length: size }, (_, i) => ({ id: from + i })),
                total,
                next: from + size < total ? String(from + size) : null,
            });
        },
        (row) => String(row.id),
        { size: 10 },
    );
    return { rows, asked };
}

test("pages are loaded while scrolling, by cursor if possible", async () => {
    const { rows, asked } = server(1000);
    rows.setVisible(0, 10);
    await settled();
    assert.equal(rows.count.value, 1000);
    assert.equal(rows.at(5)?.id, 5);
    assert.equal(rows.at(900), undefined);
    assert.ok(asked.slice(1).every((page) => page.cursor), "the next pages by cursor");
    rows.setVisible(900, 910);
    await settled();
    assert.equal(rows.at(905)?.id, 905);
    assert.ok(asked.some((page) => page.offset === 900));
});

test("old rows stay during a reload, and rows change in place", async () => {
    const { rows } = server(30);
    rows.setVisible(0, 10);
    await settled();
    rows.reload();
    assert.equal(rows.at(3)?.id, 3);
    await settled();
    const before = rows.version.value;
    assert.ok(rows.patch("3", { id: 3 }));
    assert.ok(!rows.patch("999", { id: 3 }));
    assert.equal(rows.version.value, before + 1);
});

test("scrolling does not repeat a failed load", async () => {
    let calls = 0;
    const rows = pagedRows<{ id: number }>(
        () => (calls++, Promise.reject(new Error("no"))),
        (row) => String(row.id),
    );
    rows.setVisible(0, 10);
    await settled();
    rows.setVisible(0, 20);
    await settled();
    assert.equal(calls, 1);
    rows.reload();
    await settled();
    assert.equal(calls, 2);
});
