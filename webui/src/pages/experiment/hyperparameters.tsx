// What the hyperparameters have to do with the metric: parallel coordinates, a scatter of each, and a
// simple measure of which matter.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { metric, number } from "../../lib/format";
import type { Range } from "../../lib/plot";
import { correlationRatio, flatten, metricsOf, spearman, summaryOf, varying } from "../../lib/runs";
import { go, param, text } from "../../lib/url";
import { Empty, Select } from "../../parts";
import type { Known } from "./known";

const chosen = param("by", text());
const taken = param("value", text("best"));

const LEAST = 3; // trials from which on anything can be said

interface Point {
    trialId: number;
    values: ReadonlyMap<number | string, number | string>;
    y: number;
}

/** One hyperparameter, or the metric, as an axis from 0 (its least value) to 1. */
interface Axis {
    name: string;
    isLog: boolean;
    /** Of words: each has its place. */
    words?: readonly string[];
    low: number;
    high: number;
    place: (value: number | string | undefined) => number;
    said: (share: number) => string;
}

function wordAxis(name: string, values: readonly string[]): Axis {
    const words = [...new Set(values)].sort();
    const high = Math.max(1, words.length - 1);
    return {
        name,
        isLog: false,
        words,
        low: 0,
        high,
        place: (value) => words.indexOf(String(value)) / high,
        said: (share) => words[Math.round(share * high)] ?? "",
    };
}

function axisOf(name: string, values: readonly (number | string)[]): Axis {
    if (values.some((value) => typeof value !== "number"))
        return wordAxis(name, values.map(String));
    const numbers = values as readonly number[];
    const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
    const isLog = least > 0 && most / least >= 100;
    const scale = (value: number) => (isLog ? Math.log10(value) : value);
    const [low, high] = [scale(least), scale(most)];
    const span = high - low || 1;
    return {
        name,
        isLog,
        low,
        high,
        place: (value) => (scale(Number(value)) - low) / span,
        said: (share) => metric(isLog ? 10 ** (low + share * span) : low + share * span),
    };
}

// --- parallel coordinates ------------------------------------------------------------------------

const HEIGHT = 300;
const TOP = 34;
const FOOT = 26;
const INNER = HEIGHT - TOP - FOOT;
const EDGE = 16; // from an outer axis to the edge: what it says stands inwards
const LEAST_GAP = 78; // pixels between axes
const LETTER = 8;

function Parallel(props: {
    axes: readonly Axis[];
    points: readonly Point[];
    worse: (share: number) => number;
}) {
    const { axes, points, worse } = props;
    const kept = useSignal<ReadonlyMap<string, Range>>(new Map());
    const lit = useSignal<number | undefined>(undefined);
    const drag = useSignal<{ name: string; from: number } | undefined>(undefined);
    const box = useRef<HTMLDivElement>(null);
    const room = useSignal(640);
    useEffect(() => {
        const watcher = new ResizeObserver(([entry]) => (room.value = entry!.contentRect.width));
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    const width = Math.max(room.value, 2 * EDGE + (axes.length - 1) * LEAST_GAP);
    const gap = (width - 2 * EDGE) / Math.max(1, axes.length - 1);
    const xOf = (place: number) => EDGE + place * gap;
    const yOf = (share: number) => TOP + (1 - share) * INNER;
    const last = axes.at(-1)!;
    const valueOf = (point: Point, axis: Axis) =>
        axis.place(axis === last ? point.y : point.values.get(axis.name));
    const isKept = (point: Point) =>
        axes.every((axis) => {
            const range = kept.value.get(axis.name);
            const value = valueOf(point, axis);
            return !range || (value >= range.from && value <= range.to);
        });
    const shareAt = (event: PointerEvent) => {
        const box = (event.currentTarget as Element).getBoundingClientRect();
        return Math.min(1, Math.max(0, 1 - (event.clientY - box.top) / box.height));
    };
    const onMove = (axis: Axis) => (event: PointerEvent) => {
        if (drag.value?.name !== axis.name) return;
        const [from, to] = [drag.value.from, shareAt(event)];
        const next = new Map(kept.peek());
        if (Math.abs(to - from) < 0.02) next.delete(axis.name);
        else next.set(axis.name, { from: Math.min(from, to), to: Math.max(from, to) });
        kept.value = next;
    };
    const all = points.map((point) => ({ point, keeps: isKept(point) }));
    const left = all.filter(({ keeps }) => keeps).length;
    return (
        <figure class="card stack">
            <figcaption class="spread">
                <h3>Parallel coordinates</h3>
                <span class="muted">
                    {kept.value.size
                        ? `${number(left)} of ${number(points.length)} trials fit`
                        : "Drag along an axis to keep a range; click it to drop that"}
                    {lit.value !== undefined && ` · trial ${lit.value}`}
                </span>
            </figcaption>
            <div
                ref={box}
                class="parallel"
                tabIndex={0}
                role="region"
                aria-label="Parallel coordinates of the trials"
            >
                <svg
                    width={width}
                    height={HEIGHT}
                    role="img"
                    aria-label={`${points.length} trials over ${axes.map((axis) => axis.name).join(", ")}`}
                >
                    {all.map(({ point, keeps }) => (
                        <path
                            key={point.trialId}
                            class={`parallel-line${keeps ? "" : " parallel-out"}${lit.value === point.trialId ? " parallel-lit" : ""}`}
                            style={{
                                "--share": `${Math.round(100 * (1 - worse(last.place(point.y))))}%`,
                            }}
                            d={axes
                                .map(
                                    (axis, i) =>
                                        `${i ? "L" : "M"}${xOf(i)} ${yOf(valueOf(point, axis)).toFixed(1)}`,
                                )
                                .join("")}
                            onPointerEnter={() => (lit.value = point.trialId)}
                            onPointerLeave={() => (lit.value = undefined)}
                            onClick={() => go(`/trials/${point.trialId}`)}
                        >
                            <title>{`trial ${point.trialId}: ${metric(point.y)}`}</title>
                        </path>
                    ))}
                    {axes.map((axis, i) => {
                        const range = kept.value.get(axis.name);
                        const isLast = axis === last;
                        const side = isLast ? " axis-end" : i ? "" : " axis-first";
                        const most = Math.floor(gap / LETTER / (isLast || !i ? 1.5 : 1)) + 1;
                        return (
                            <g key={axis.name} transform={`translate(${xOf(i)} 0)`}>
                                <text class={`axis-name${side}`} y="14">
                                    {axis.name.length > most
                                        ? `…${axis.name.slice(1 - most)}`
                                        : axis.name}
                                    <title>{axis.name}</title>
                                </text>
                                <line class="axis-line" y1={TOP} y2={TOP + INNER} />
                                {(axis.words?.length
                                    ? axis.words.map((_, k) => k / axis.high)
                                    : [0, 0.5, 1]
                                ).map((share) => (
                                    <text
                                        key={share}
                                        class={`axis-text${isLast ? " axis-end" : ""}`}
                                        x={isLast ? -6 : 6}
                                        y={yOf(share) + 4}
                                    >
                                        {axis.said(share)}
                                    </text>
                                ))}
                                {range && (
                                    <rect
                                        class="axis-kept"
                                        x="-7"
                                        width="14"
                                        y={yOf(range.to)}
                                        height={(range.to - range.from) * INNER}
                                    />
                                )}
                                <rect
                                    class="axis-grip"
                                    x="-14"
                                    width="28"
                                    y={TOP}
                                    height={INNER}
                                    onPointerDown={(event) => {
                                        event.currentTarget.setPointerCapture(event.pointerId);
                                        drag.value = { name: axis.name, from: shareAt(event) };
                                        onMove(axis)(event);
                                    }}
                                    onPointerMove={onMove(axis)}
                                    onPointerUp={() => (drag.value = undefined)}
                                />
                            </g>
                        );
                    })}
                </svg>
            </div>
        </figure>
    );
}

// --- scatter -------------------------------------------------------------------------------------

const SIDE = { width: 300, height: 180, left: 46, foot: 24 };

function Scatter({ axis, up, points }: { axis: Axis; up: Axis; points: readonly Point[] }) {
    const { width, height, left, foot } = SIDE;
    const x = (share: number) => left + share * (width - left - 30);
    const y = (share: number) => height - foot - share * (height - foot - 12);
    return (
        <figure class="card">
            <figcaption>
                <h3 class="cut">
                    {axis.name}
                    {axis.isLog && <span class="muted"> (log)</span>}
                </h3>
            </figcaption>
            <svg
                class="scatter"
                viewBox={`0 0 ${width} ${height}`}
                role="group"
                aria-label={`${up.name} over ${axis.name}, ${points.length} trials`}
            >
                <path
                    class="axis-line"
                    d={`M${left} 8V${height - foot}H${width - 8}`}
                    fill="none"
                />
                {[0, 1].map((share) => (
                    <text key={share} class="axis-text axis-end" x={left - 5} y={y(share) + 4}>
                        {up.said(share)}
                    </text>
                ))}
                {(axis.words ? axis.words.map((_, k) => k / axis.high) : [0, 0.5, 1]).map(
                    (share) => (
                        <text key={share} class="axis-text axis-middle" x={x(share)} y={height - 8}>
                            {axis.said(share)}
                        </text>
                    ),
                )}
                {points.map((point) => (
                    <a
                        key={point.trialId}
                        href={`/trials/${point.trialId}`}
                        tabIndex={-1}
                        aria-label={`trial ${point.trialId}`}
                    >
                        <circle
                            class="scatter-dot"
                            cx={x(axis.place(point.values.get(axis.name)))}
                            cy={y(up.place(point.y))}
                            r="4"
                        >
                            <title>{`trial ${point.trialId}: ${metric(point.y)}`}</title>
                        </circle>
                    </a>
                ))}
            </svg>
        </figure>
    );
}

// --- which matter --------------------------------------------------------------------------------

function Importance(props: {
    names: readonly string[];
    points: readonly Point[];
    metricName: string;
}) {
    const { names, points, metricName } = props;
    const y = points.map((point) => point.y);
    const found = names
        .map((name) => {
            const values = points.map((point) => point.values.get(name));
            const isNumber = values.every((value) => typeof value === "number");
            const size = isNumber
                ? spearman(values as number[], y)
                : correlationRatio(values.map(String), y);
            return { name, size, isNumber };
        })
        .sort((a, b) => Math.abs(b.size) - Math.abs(a.size));
    return (
        <section class="card stack">
            <h3>Which go with {metricName}</h3>
            <p class="muted">
                Rank correlation (Spearman) over {number(points.length)} trials, one hyperparameter
                at a time; of words, the correlation ratio of ranks, which has no sign. It tells
                what goes together, not what causes what: trials that were stopped early were
                trained for less.
            </p>
            <table class="importance">
                <thead>
                    <tr>
                        <th scope="col">Hyperparameter</th>
                        <th scope="col">Strength</th>
                        <th scope="col">In words</th>
                    </tr>
                </thead>
                <tbody>
                    {found.map(({ name, size, isNumber }) => (
                        <tr key={name}>
                            <th scope="row" class="mono">
                                {name}
                            </th>
                            <td>
                                <span class="line">
                                    <meter
                                        value={Math.abs(size)}
                                        max={1}
                                        aria-label={`Strength of ${name}`}
                                    />
                                    <span class="num">{size.toFixed(2)}</span>
                                </span>
                            </td>
                            <td class="muted">
                                {Math.abs(size) < 0.2
                                    ? "hardly any"
                                    : !isNumber
                                      ? "differs by its value"
                                      : size > 0
                                        ? "larger goes with a larger metric"
                                        : "larger goes with a smaller metric"}
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </section>
    );
}

// --- all of it -----------------------------------------------------------------------------------

export function Hyperparameters({ experiment, trials }: Known) {
    const metrics = metricsOf(trials).filter(
        ({ group }) => group === "validation" || group === "training",
    );
    const keyOf = ({ group, name }: { group: string; name: string }) => `${group}.${name}`;
    const own = metrics.find(
        ({ group, name }) => group === "validation" && name === experiment.searcherMetric,
    );
    const at = metrics.find((one) => keyOf(one) === chosen.value) ?? own ?? metrics[0];
    const searcher = experiment.config?.["searcher"] as { smaller_is_better?: boolean } | undefined;
    const isSmaller =
        at === own
            ? searcher?.smaller_is_better !== false
            : !/accuracy|score|f1|auc|reward/.test(at?.name ?? "");
    const { points, names } = useMemo(() => {
        const field = taken.value === "last" ? "last" : isSmaller ? "min" : "max";
        const flats = trials.map((trial) => flatten(trial.hparams));
        const found = trials.flatMap((trial, i): Point[] => {
            const y = at && summaryOf(trial, at)?.[field];
            return typeof y === "number" ? [{ trialId: trial.id, values: flats[i]!, y }] : [];
        });
        return { points: found, names: varying(flats) };
    }, [trials, at && keyOf(at), taken.value, isSmaller]);
    if (!names.length || points.length < LEAST || !at)
        return (
            <Empty
                title={names.length ? "Too few trials yet" : "Nothing varies here"}
                icon="compare"
            >
                <p>
                    {names.length
                        ? `From ${LEAST} trials with a metric on, this shows what goes with what.`
                        : "All trials have the same hyperparameters. A searcher such as random or adaptive_asha tries several: fork it with ranges."}
                </p>
            </Empty>
        );
    const complete = points.filter((point) => names.every((name) => point.values.has(name)));
    const axes = names.map((name) =>
        axisOf(
            name,
            complete.map((point) => point.values.get(name)!),
        ),
    );
    const up = axisOf(
        at.name,
        complete.map((point) => point.y),
    );
    const by = {
        get value() {
            return keyOf(at);
        },
        set value(key: string) {
            chosen.value = key;
        },
    };
    return (
        <div class="stack">
            <div class="line">
                <Select label="Metric" at={by} options={metrics.map(keyOf)} />
                <Select
                    label="Value"
                    at={taken}
                    options={[
                        { value: "best", title: `best (${isSmaller ? "least" : "greatest"})` },
                        { value: "last", title: "last" },
                    ]}
                />
                {trials.length < experiment.numTrials && (
                    <span class="muted">
                        The best {number(trials.length)} of {number(experiment.numTrials)} trials
                    </span>
                )}
            </div>
            <Parallel
                axes={[...axes, up]}
                points={complete}
                worse={(share) => (isSmaller ? share : 1 - share)}
            />
            <Importance names={names} points={complete} metricName={at.name} />
            <div class="grid scatters">
                {axes.map((axis) => (
                    <Scatter key={axis.name} axis={axis} up={up} points={complete} />
                ))}
            </div>
        </div>
    );
}
