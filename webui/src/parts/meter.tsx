// Small pictures of numbers, for cells and lines of text.

import { percent } from "../lib/format";
import "./meter.css";

/** A share from 0 to 1, drawn and in words. */
export function Progress({ value, label }: { value: number; label: string }) {
    const share = Math.min(1, Math.max(0, value));
    return (
        <span class="meter num">
            <progress class="meter-bar" value={share} max={1} aria-label={label} />
            <span class="meter-word">{percent(share)}</span>
        </span>
    );
}

/** So much of so much. `tone` as of states. */
export function Bar(props: { value: number; of: number; label: string; tone?: string }) {
    const { value, of, label, tone = "busy" } = props;
    return (
        <meter
            class={`meter-bar meter-${tone}`}
            value={of > 0 ? value : 0}
            max={of > 0 ? of : 1}
            aria-label={label}
            title={label}
        />
    );
}

const WIDTH = 96;
const HEIGHT = 22;

/** "M0 20L10 5..." through the values that are there. */
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

/** A line without axes; thin the values to some hundred before. */
export function Spark({ values, label }: { values: readonly number[]; label: string }) {
    return (
        <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
            {values.length > 1 && <path d={sparkPath(values)} />}
        </svg>
    );
}
