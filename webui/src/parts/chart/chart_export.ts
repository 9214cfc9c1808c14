// Exports a chart as PNG, SVG or CSV.

import type { Action } from "../../lib/actions";
import { toCsv, saveFile } from "../../lib/download";
import { compact } from "../../lib/format";
import {
    colourOf,
    dashOf,
    type Line,
    type Range,
    ticks,
    indexRange,
    type XKind,
} from "../../lib/chart/plot";

export interface Drawing {
    title: string;
    xKind: XKind;
    shown: readonly Line[];
    smooth: readonly (ArrayLike<number> | undefined)[];
    x: Range;
    y: Range;
    props: { logX?: boolean; logY?: boolean };
    css: (name: string) => string;
    xTicks: (count: number) => number[];
    xText: (value: number) => string;
}

const WIDTH = 800;
const HEIGHT = 420;
const MARGIN = { left: 64, right: 16, top: 34, bottom: 30 };
const LEGEND_LINE = 18; // height of a line of the legend

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escapeXml = (text: string) => text.replace(/[&<>"]/g, (one) => escapes[one]!);

type Scale = (value: number) => number;

function scale(range: Range, log: boolean, from: number, to: number): Scale {
    const map = log ? Math.log : (value: number) => value;
    const low = map(range.from);
    const span = map(range.to) - low || 1;
    return (value) => from + ((map(value) - low) / span) * (to - from);
}

function pathOf(line: Line, y: ArrayLike<number>, seen: Range, px: Scale, py: Scale): string {
    const [first, end] = indexRange(line.x, seen);
    let path = "";
    let isPen = false;
    for (let i = first; i < end; i++) {
        const at = py(y[i]!);
        if (Number.isFinite(at)) path += `${isPen ? "L" : "M"}${px(line.x[i]!).toFixed(1)} ${at.toFixed(1)}`;
        isPen = Number.isFinite(at);
    }
    return path;
}

export function chartSvg(d: Drawing): string {
    const px = scale(d.x, d.props.logX ?? false, MARGIN.left, WIDTH - MARGIN.right);
    const py = scale(d.y, d.props.logY ?? false, HEIGHT - MARGIN.bottom, MARGIN.top);
    const height = HEIGHT + LEGEND_LINE * d.shown.length + 8;
    const muted = escapeXml(d.css("--muted"));
    const grid = escapeXml(d.css("--line"));
    const parts = [
        `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" ` +
            `font-family="sans-serif" font-size="11">`,
        `<rect width="100%" height="100%" fill="${d.css("--surface")}"/>`,
        `<text x="16" y="21" font-size="14" font-weight="600" fill="${d.css("--text")}">` +
            `${escapeXml(d.title)}</text>`,
    ];
    for (const value of d.xTicks(8)) {
        const at = px(value).toFixed(1);
        parts.push(`<path d="M${at} ${MARGIN.top}V${HEIGHT - MARGIN.bottom}" stroke="${grid}"/>`);
        parts.push(
            `<text x="${at}" y="${HEIGHT - 12}" text-anchor="middle" fill="${muted}">` +
                `${escapeXml(d.xText(value))}</text>`,
        );
    }
    for (const value of ticks(d.y, 7, d.props.logY ?? false)) {
        const at = py(value).toFixed(1);
        parts.push(`<path d="M${MARGIN.left} ${at}H${WIDTH - MARGIN.right}" stroke="${grid}"/>`);
        parts.push(
            `<text x="${MARGIN.left - 6}" y="${at}" dy="4" text-anchor="end" fill="${muted}">` +
                `${escapeXml(compact(value))}</text>`,
        );
    }
    const box = `x="${MARGIN.left}" y="${MARGIN.top}" width="${WIDTH - MARGIN.left - MARGIN.right}"`;
    parts.push(`<clipPath id="c"><rect ${box} height="${HEIGHT - MARGIN.top - MARGIN.bottom}"/></clipPath>`);
    d.shown.forEach((line, i) => {
        const kind = line.styleIndex ?? i;
        const look = `fill="none" stroke="${escapeXml(d.css(colourOf(kind)))}"`;
        const dash = dashOf(kind).length ? ` stroke-dasharray="${dashOf(kind).join(" ")}"` : "";
        const soft = d.smooth[i];
        const draw = (y: ArrayLike<number>, more: string) =>
            `<path clip-path="url(#c)" d="${pathOf(line, y, d.x, px, py)}" ${look}${more}/>`;
        if (soft) parts.push(draw(line.y, ` stroke-opacity="0.28"`));
        parts.push(draw(soft ?? line.y, ` stroke-width="1.6"${dash}`));
        const y = HEIGHT + LEGEND_LINE * i + 6;
        parts.push(`<path d="M16 ${y}h24" ${look} stroke-width="2"${dash}/>`);
        parts.push(
            `<text x="48" y="${y + 4}" fill="${d.css("--text")}">${escapeXml(line.label)}</text>`,
        );
    });
    return `${parts.join("\n")}\n</svg>\n`;
}

/** The SVG as a PNG with twice the resolution. */
async function savePng(d: Drawing): Promise<void> {
    const image = new Image();
    const source = chartSvg(d).replace("<svg ", `<svg width="${WIDTH}" height="${
        HEIGHT + LEGEND_LINE * d.shown.length + 8
    }" `);
    image.src = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth * 2;
    canvas.height = image.naturalHeight * 2;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    canvas.toBlob((blob) => blob && saveFile(`${d.title}.png`, "image/png", blob));
}

function* csvRows(d: Drawing): Iterable<readonly (string | number)[]> {
    for (const line of d.shown)
        for (let i = 0; i < line.x.length; i++) yield [line.label, line.x[i]!, line.y[i]!];
}

export function exportActions(drawing: () => Drawing): Action[] {
    const action = (name: string, run: (d: Drawing) => unknown): Action => ({
        name,
        icon: "download",
        run: () => run(drawing()),
    });
    return [
        action("Save as PNG", savePng),
        action("Save as SVG", (d) => saveFile(`${d.title}.svg`, "image/svg+xml", chartSvg(d))),
        action("Save as CSV", (d) =>
            saveFile(`${d.title}.csv`, "text/csv", toCsv(["line", d.xKind, "value"], csvRows(d))),
        ),
    ];
}
