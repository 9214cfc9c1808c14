// How charts are drawn: the same for all charts of a page, in its address.

import { batch } from "@preact/signals";
import type { Range, XKind } from "./plot";
import { type Codec, flag, number, param, text } from "./url";

/** As many digits as one sees of a range: "1200:2400", "1763770000.2:1763770031.5". */
function writeRange(range: Range | null): string {
    if (!range) return "";
    const digitsOf = (size: number) => 3 - Math.floor(Math.log10(size));
    const least = digitsOf(range.to - range.from);
    const said = (value: number) => {
        const digits = Math.max(0, least, digitsOf(Math.abs(value)));
        return String(Number(value.toFixed(Math.min(20, digits))));
    };
    return `${said(range.from)}:${said(range.to)}`;
}

function readRange(given: string): Range | null {
    const [from, to, ...more] = given.split(":").map((part) => (part ? Number(part) : NaN));
    return more.length === 0 && from! < to! && Number.isFinite(to! - from!) ? { from: from!, to: to! } : null;
}

export const rangeCodec: Codec<Range | null> = { fallback: null, read: readRange, write: writeRange };

const kind = param("x", text("step"));
const zoom = param("zoom", rangeCodec);

export const view = {
    x: {
        get value() {
            return kind.value as XKind;
        },
        /** Another x has other units: what was zoomed to means nothing there. */
        set value(next: XKind) {
            batch(() => {
                kind.value = next;
                zoom.value = null;
            });
        },
    },
    /** The range of x that all charts show; null: each shows all that it has. */
    zoom,
    smooth: param("smooth", number(0)),
    logX: param("logx", flag()),
    logY: param("logy", flag()),
};
