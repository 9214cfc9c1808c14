// The settings of all charts of a page: x axis, zoom, smoothing, logarithmic axes. The address holds them.

import { batch } from "@preact/signals";
import type { Range, XKind } from "./plot";
import { type Codec, flag, number, queryParam, text } from "../url";

/** A range with only the visible digits: "1200:2400", "1763770000.2:1763770031.5". */
function writeRange(range: Range | null): string {
    if (!range) return "";
    const digitsOf = (size: number) => 3 - Math.floor(Math.log10(size));
    const minDigits = digitsOf(range.to - range.from);
    const format = (value: number) => {
        const digits = Math.max(0, minDigits, digitsOf(Math.abs(value)));
        return String(Number(value.toFixed(Math.min(20, digits))));
    };
    return `${format(range.from)}:${format(range.to)}`;
}

function readRange(given: string): Range | null {
    const [from, to, ...more] = given.split(":").map((part) => (part ? Number(part) : NaN));
    return more.length === 0 && from! < to! && Number.isFinite(to! - from!) ? { from: from!, to: to! } : null;
}

export const rangeCodec: Codec<Range | null> = { fallback: null, read: readRange, write: writeRange };

const xKind = queryParam("x", text("step"));
const zoom = queryParam("zoom", rangeCodec);

export const chartView = {
    x: {
        get value() {
            return xKind.value as XKind;
        },
        /** Another x has other units, so changing it resets the zoom. */
        set value(next: XKind) {
            batch(() => {
                xKind.value = next;
                zoom.value = null;
            });
        },
    },
    /** The range of x that all charts show; null: each chart shows all its points. */
    zoom,
    smooth: queryParam("smooth", number(0)),
    logX: queryParam("logx", flag()),
    logY: queryParam("logy", flag()),
};
