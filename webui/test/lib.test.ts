import assert from "node:assert/strict";
import { test } from "node:test";
import { type ApiError, apiUrl, retryDelay } from "../src/lib/api";
import { curlCommand, musterCommand, shellQuote } from "../src/lib/command_line";
import { diffLines } from "../src/lib/config/diff";
import { toCsv, safeFileName } from "../src/lib/download";
import { bytes, compact, count, dueTime, duration, formatMetric, percent } from "../src/lib/format";
import { eventMatches, type ClusterEvent, eventsUrl } from "../src/lib/events/stream";
import { fillPath, findRoute, matchPath } from "../src/lib/routes";
import { buildHref, list } from "../src/lib/url";
import { toYaml } from "../src/lib/config/yaml";

test("numbers as text", () => {
    assert.equal(formatMetric(0.023456789), "0.02346");
    assert.equal(formatMetric(1e-7), "1e-7");
    assert.equal(formatMetric(12345678.9), "1.235e7");
    assert.equal(formatMetric("Infinity"), "∞");
    assert.equal(formatMetric(null), "–");
    assert.deepEqual([2e6, 2.199e6, 220158, 50_000, 0.5, null].map(compact), ["2M", "2.199M", "220.158K", "50K", "0.5", "–"]);
    assert.equal(duration(3725), "1h 02m");
    assert.equal(duration(0.25), "250ms");
    assert.equal(duration(90000), "1d 1h");
    assert.equal(bytes("1536"), "1.5 KiB");
    assert.equal(percent(0.999), "99 %");
    assert.equal(compact(1_500_000), "1.5M");
    assert.equal(count(1, "trial") + count(1200, "trial"), "1 trial1,200 trials");
});

test("an imminent or past estimate is \"soon\"", () => {
    const from = Date.now();
    assert.equal(dueTime(from - 60_000), "soon");
    assert.equal(dueTime(from + 1000), "soon");
    assert.match(dueTime(from + 7_300_000), /^in 2h$/);
});

test("paths match patterns with names", () => {
    assert.deepEqual(matchPath("/trials/:id", "/trials/7/"), { id: "7" });
    assert.deepEqual(matchPath("/", "/"), {});
    assert.equal(matchPath("/trials/:id", "/trials"), undefined);
    assert.equal(matchPath("/models/:name", "/models/a%2Fb")?.["name"], "a/b");
    const rows = ["/a/:x", "/a/b"];
    assert.equal(findRoute(rows, (row) => row, "/a/b")?.row, "/a/:x");
    assert.equal(fillPath("/models/:name", { name: "a/b" }), "/models/a%2Fb");
});

test("URLs and query strings", () => {
    assert.equal(apiUrl("/x", { a: [1, 2], b: undefined, c: "ä b" }), "/api/v1/x?a=1&a=2&c=%C3%A4+b");
    const words = ["a,b", "50%", "plain"];
    const codec = list();
    assert.deepEqual(codec.read(codec.write(words)), words);
    assert.equal(buildHref("/x", new URLSearchParams({ t: "1,2" })), "/x?t=1,2");
});

test("the retry delay is the master's, or else grows", () => {
    assert.deepEqual([0, 1, 2].map((tried) => retryDelay(tried, null)), [0.5, 1, 2]);
    assert.equal(retryDelay(0, "3"), 3);
    assert.equal(retryDelay(0, "1000"), 30);
});

test("an error has the master's message and advice", async () => {
    const { get } = await import("../src/lib/api");
    const body = { error: { reason: "NotFound", error: "trial '7' not found" } };
    globalThis.fetch = () => Promise.resolve(Response.json(body, { status: 404 }));
    await assert.rejects(get("/trials/7"), (error: ApiError) => {
        assert.equal(error.message, "trial '7' not found");
        assert.match(error.advice, /deleted/);
        return true;
    });
});

test("a refusal because of the state of an object has advice", async () => {
    const { send } = await import("../src/lib/api");
    const body = { error: { code: 9, reason: "FailedPrecondition", error: "experiment 7 is COMPLETED" } };
    globalThis.fetch = () => Promise.resolve(Response.json(body, { status: 400 }));
    await assert.rejects(send("POST", "/experiments/7/pause"), (error: ApiError) => {
        assert.match(error.advice, /Reload the page/);
        return true;
    });
    body.error.reason = "InvalidArgument";
    await assert.rejects(send("POST", "/experiments/7/pause"), (error: ApiError) => error.advice === "");
});

test("a change that got no answer is not retried, and the advice says so", async () => {
    const { send } = await import("../src/lib/api");
    globalThis.fetch = () => Promise.reject(new TypeError("refused"));
    await assert.rejects(send("POST", "/experiments/7/pause"), (error: ApiError) => {
        assert.match(error.advice, /Try again/);
        assert.doesNotMatch(error.advice, /by itself/);
        return true;
    });
});

test("only GET calls are repeated while the master is busy", async () => {
    const { get, send } = await import("../src/lib/api");
    let calls = 0;
    globalThis.fetch = () =>
        Promise.resolve(
            ++calls < 3
                ? Response.json({}, { status: 503, headers: { "Retry-After": "0" } })
                : Response.json({ calls }),
        );
    assert.deepEqual(await get("/x"), { calls: 3 });
    calls = 0;
    await assert.rejects(send("POST", "/x"));
    assert.equal(calls, 1);
});

test("commands to copy", () => {
    const call = { method: "POST", path: "/x", body: { a: "it's" }, muster: ["label", "two words"] } as const;
    assert.equal(musterCommand(call), "muster label 'two words'");
    assert.equal(
        curlCommand(call, "http://m:8080"),
        `curl -sS -X POST -H 'Content-Type: application/json' -H "Authorization: Bearer $MUSTER_TOKEN"` +
            ` -d '{"a":"it'\\''s"}' http://m:8080/api/v1/x`,
    );
    assert.equal(shellQuote("a-b.c"), "a-b.c");
});

test("CSV files and file names", () => {
    assert.equal(toCsv(["a", "b"], [[1, 'x,"y"'], [null, true]]), 'a,b\r\n1,"x,""y"""\r\n,true\r\n');
    assert.equal(toCsv(["=a"], [['=HYPERLINK("x")'], ["@b"], ["-1e-3"], [-2], ["a-b"]]),
        "'=a\r\n\"'=HYPERLINK(\"\"x\"\")\"\r\n'@b\r\n-1e-3\r\n-2\r\na-b\r\n");
    assert.equal(safeFileName("../loss of / trial 7.svg"), "loss-of-trial-7.svg");
});

test("differences by line", () => {
    const kinds = (a: string, b: string) =>
        diffLines(a, b).map((line) => ({ same: " ", removed: "-", added: "+" })[line.kind] + line.text);
    assert.deepEqual(kinds("a\nb\nc", "a\nx\nc"), [" a", "-b", "+x", " c"]);
    assert.deepEqual(kinds("", "a"), ["-", "+a"]);
    assert.deepEqual(kinds("a\nb", "a\nb"), [" a", " b"]);
    assert.deepEqual(kinds("a\nb\nc\nd", "b\nc\nd\ne"), ["-a", " b", " c", " d", "+e"]);
    const last = diffLines("a\nb\nc", "c").at(-1)!;
    assert.deepEqual([last.before, last.after], [3, 1]);
});

test("configurations as YAML", () => {
    const config = { name: "a: b", list: [1, "x"], deep: { a: true, none: null }, empty: {}, no: "yes" };
    assert.equal(
        toYaml(config),
        'name: "a: b"\nlist: [1, x]\ndeep:\n  a: true\n  none: null\nempty: {}\n"no": "yes"\n',
    );
});

test("one stream covers all filters, and events match their filters", () => {
    const all = { topics: ["experiments"] } as const;
    const one = { topics: ["metrics"], trialId: 7 } as const;
    assert.equal(eventsUrl([]), "");
    assert.equal(eventsUrl([one]), "/api/v1/events?topics=metrics&trialIds=7");
    assert.equal(eventsUrl([all, one]), "/api/v1/events?topics=experiments%2Cmetrics");
    const event = (trialId: number): ClusterEvent => ({
        topic: "metrics",
        trialId,
        experimentId: 1,
        group: "training",
    });
    assert.ok(eventMatches(one, event(7)));
    assert.ok(!eventMatches(one, event(8)));
    assert.ok(!eventMatches(all, event(7)));
});
