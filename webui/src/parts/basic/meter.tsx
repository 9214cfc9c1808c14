// Small graphics for numbers, for table cells and lines of text.

import { percent } from "../../lib/format";
import "./meter.css";

/** A progress bar for a share from 0 to 1, with the percentage. */
export function Progress({ value, label }: { value: number; label: string }) {
    const share = Math.min(1, Math.max(0, value));
    return (
        <span class="meter num">
            <progress class="meter-bar" value={share} max={1} aria-label={label} />
            <span class="meter-word">{percent(share)}</span>
        </span>
    );
}

/** A bar for `value` of `max`. `tone`: a tone of states. */
export function Bar(props: { value: number; max: number; label: string; tone?: string }) {
    const { value, max, label, tone = "busy" } = props;
    return (
        <meter
            class={`meter-bar meter-${tone}`}
            value={max > 0 ? value : 0}
            max={max > 0 ? max : 1}
            aria-label={label}
            title={label}
        />
    );
}

const WIDTH = 96;
const HEIGHT = 22;

/** The SVG path through the values, with gaps where a value is missing. */
export function sparkPath(values: readonly number[]): string {
    const real = values.filter(Number.isFinite);
    const low = Math.min(...real);
    const span = Math.max(...real) - low || 1;
    const step = WIDTH / Math.max(1, values.length - 1);
    let path = "";
    let isPen = false;
    values.forEach((value, i) => {
        if (!Number.isFinite(value)) {
            isPen = false;
            return;
        }
        const y = HEIGHT - 2 - ((value - low) / span) * (HEIGHT - 4);
        path += `${isPen ? "L" : "M"}${(i * step).toFixed(1)} ${y.toFixed(1)}`;
        isPen = true;
    });
    return path;
}

/** A line without axes, for up to a few hundred values. */
export function Spark({ values, label }: { values: readonly number[]; label: string }) {
    return (
        <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
            {values.length > 1 && <path d={sparkPath(values)} />}
        </svg>
    );
}
