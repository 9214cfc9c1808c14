// Parallel coordinates: an axis for each hyperparameter and for the metric, and a line for each trial. Dragging along an
// axis filters the trials by a range.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Range } from "../../lib/chart/plot";
import { formatMetric, number } from "../../lib/format";
import { navigate } from "../../lib/url";
import { type Axis, labelPositions, type Point } from "./axes";

const HEIGHT = 300;
const TOP = 34;
const FOOT = 26;
const INNER = HEIGHT - TOP - FOOT;
const EDGE = 16; // pixels from an outer axis to the edge; the labels of the last axis stand on its left
const MIN_GAP = 78; // pixels between axes
const LETTER = 8; // pixels

const yOf = (position: number) => TOP + (1 - position) * INNER;

type Ranges = ReadonlyMap<string, Range>;

/** The width of the element with the returned ref. */
function useWidth() {
    const box = useRef<HTMLDivElement>(null);
    const width = useSignal(640);
    useEffect(() => {
        const watcher = new ResizeObserver(([entry]) => (width.value = entry!.contentRect.width));
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    return { box, width };
}

/** Handlers for an axis: dragging along it sets its range, a click removes the range. */
function rangeDrag(axis: Axis, ranges: Signal<Ranges>, drag: Signal<{ name: string; from: number } | undefined>) {
    const positionOf = (event: PointerEvent) => {
        const { top, height } = (event.currentTarget as Element).getBoundingClientRect();
        return Math.min(1, Math.max(0, 1 - (event.clientY - top) / height));
    };
    const onPointerMove = (event: PointerEvent) => {
        if (drag.value?.name !== axis.name) return;
        const [from, to] = [drag.value.from, positionOf(event)];
        const next = new Map(ranges.peek());
        if (Math.abs(to - from) < 0.02) next.delete(axis.name);
        else next.set(axis.name, { from: Math.min(from, to), to: Math.max(from, to) });
        ranges.value = next;
    };
    const onPointerDown = (event: PointerEvent) => {
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        drag.value = { name: axis.name, from: positionOf(event) };
        onPointerMove(event);
    };
    return { onPointerDown, onPointerMove, onPointerUp: () => (drag.value = undefined) };
}

interface AxisProps {
    axis: Axis;
    x: number;
    gap: number;
    end: "first" | "last" | undefined;
    range: Range | undefined;
    handlers: ReturnType<typeof rangeDrag>;
}

function AxisView({ axis, x, gap, end, range, handlers }: AxisProps) {
    const isLast = end === "last";
    const side = isLast ? " axis-end" : end ? " axis-first" : "";
    const maxLetters = Math.floor(gap / LETTER / (end ? 1.5 : 1)) + 1;
    return (
        <g transform={`translate(${x} 0)`}>
            <text class={`axis-name${side}`} y="14">
                {axis.name.length > maxLetters ? `…${axis.name.slice(1 - maxLetters)}` : axis.name}
                <title>{axis.name}</title>
            </text>
            <line class="axis-line" y1={TOP} y2={TOP + INNER} />
            {labelPositions(axis).map((position) => (
                <text
                    key={position}
                    class={`axis-text${isLast ? " axis-end" : ""}`}
                    x={isLast ? -6 : 6}
                    y={yOf(position) + 4}
                >
                    {axis.label(position)}
                </text>
            ))}
            {range && (
                <rect
                    class="axis-range"
                    x="-7"
                    width="14"
                    y={yOf(range.to)}
                    height={(range.to - range.from) * INNER}
                />
            )}
            <rect class="axis-grip" x="-14" width="28" y={TOP} height={INNER} {...handlers} />
        </g>
    );
}

function TrialLine(props: {
    point: Point;
    positions: readonly number[];
    xOf: (index: number) => number;
    class: string;
    quality: number;
    highlighted: Signal<number | undefined>;
}) {
    const { point, positions, xOf, quality, highlighted } = props;
    return (
        <path
            class={props.class}
            style={{ "--quality": `${Math.round(100 * quality)}%` }}
            d={positions.map((position, i) => `${i ? "L" : "M"}${xOf(i)} ${yOf(position).toFixed(1)}`).join("")}
            onPointerEnter={() => (highlighted.value = point.trialId)}
            onPointerLeave={() => (highlighted.value = undefined)}
            onClick={() => navigate(`/trials/${point.trialId}`)}
        >
            <title>{`trial ${point.trialId}: ${formatMetric(point.y)}`}</title>
        </path>
    );
}

/** `axes`: the last one is the metric. `isSmallerBetter`: whether smaller values of the metric are better. */
export function ParallelCoordinates(props: {
    axes: readonly Axis[];
    points: readonly Point[];
    isSmallerBetter: boolean;
}) {
    const { axes, points, isSmallerBetter } = props;
    const ranges = useSignal<Ranges>(new Map());
    const highlighted = useSignal<number | undefined>(undefined);
    const drag = useSignal<{ name: string; from: number } | undefined>(undefined);
    const { box, width: boxWidth } = useWidth();
    const width = Math.max(boxWidth.value, 2 * EDGE + (axes.length - 1) * MIN_GAP);
    const gap = (width - 2 * EDGE) / Math.max(1, axes.length - 1);
    const xOf = (index: number) => EDGE + index * gap;
    const last = axes.at(-1)!;
    const lines = points.map((point) => {
        const positions = axes.map((axis) => axis.position(axis === last ? point.y : point.values.get(axis.name)));
        const matches = axes.every((axis, i) => {
            const range = ranges.value.get(axis.name);
            return !range || (positions[i]! >= range.from && positions[i]! <= range.to);
        });
        return { point, positions, matches };
    });
    const matching = lines.filter(({ matches }) => matches).length;
    const hint = "Drag along an axis to filter by a range, click the axis to remove it";
    return (
        <figure class="card stack">
            <figcaption class="spread">
                <h3>Parallel coordinates</h3>
                <span class="muted">
                    {ranges.value.size ? `${number(matching)} of ${number(points.length)} trials match` : hint}
                    {highlighted.value !== undefined && ` · trial ${highlighted.value}`}
                </span>
            </figcaption>
            <div ref={box} class="parallel" tabIndex={0} role="region" aria-label="Parallel coordinates of the trials">
                <svg
                    width={width}
                    height={HEIGHT}
                    role="img"
                    aria-label={`${points.length} trials over ${axes.map((axis) => axis.name).join(", ")}`}
                >
                    {lines.map(({ point, positions, matches }) => (
                        <TrialLine
                            key={point.trialId}
                            point={point}
                            positions={positions}
                            xOf={xOf}
                            class={`parallel-line${matches ? "" : " parallel-filtered"}${highlighted.value === point.trialId ? " parallel-highlighted" : ""}`}
                            quality={isSmallerBetter ? 1 - positions.at(-1)! : positions.at(-1)!}
                            highlighted={highlighted}
                        />
                    ))}
                    {axes.map((axis, i) => (
                        <AxisView
                            key={axis.name}
                            axis={axis}
                            x={xOf(i)}
                            gap={gap}
                            end={axis === last ? "last" : i ? undefined : "first"}
                            range={ranges.value.get(axis.name)}
                            handlers={rangeDrag(axis, ranges, drag)}
                        />
                    ))}
                </svg>
            </div>
        </figure>
    );
}
