// The legend of a chart: a button for each line, with the value at the cursor.

import { compact } from "../../lib/format";
import { COLOURS, dashOf, type Line, nearest } from "../../lib/chart/plot";
import { smoothedOnce } from "./drawing";
import "./chart.css";

export function Swatch({ styleIndex }: { styleIndex: number }) {
    return (
        <svg class={`swatch swatch-${styleIndex % COLOURS}`} viewBox="0 0 22 8" aria-hidden="true">
            <path d="M1 4H21" stroke-dasharray={dashOf(styleIndex).join(" ")} />
        </svg>
    );
}

export function Legend(props: {
    lines: readonly Line[];
    hidden: ReadonlySet<string>;
    smooth: number;
    /** The x of the cursor; undefined: the legend shows the last values. */
    cursorX: number | undefined;
    onHighlight: (id: string) => void;
    onToggle: (id: string) => void;
}) {
    return (
        <ul class="legend">
            {props.lines.map((line, i) => {
                const index = props.cursorX === undefined ? line.x.length - 1 : nearest(line.x, props.cursorX);
                const y = smoothedOnce(line.y, props.smooth);
                return (
                    <li key={line.id}>
                        <button
                            type="button"
                            class="legend-line"
                            aria-pressed={!props.hidden.has(line.id)}
                            title={`Show or hide ${line.label}`}
                            onClick={() => props.onToggle(line.id)}
                            onPointerEnter={() => props.onHighlight(line.id)}
                            onPointerLeave={() => props.onHighlight("")}
                            onFocus={() => props.onHighlight(line.id)}
                            onBlur={() => props.onHighlight("")}
                        >
                            <Swatch styleIndex={line.styleIndex ?? i} />
                            <span class="ellipsis">{line.label}</span>
                            <span class="legend-value num">{compact(y[index] ?? null)}</span>
                        </button>
                    </li>
                );
            })}
        </ul>
    );
}
