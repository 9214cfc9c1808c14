// The colours of tokens.css by WCAG's arithmetic: what a theme says stands on which surface.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(`${process.cwd()}/src/style/tokens.css`, "utf8");

function colours(theme: string): Record<string, string> {
    const block = css.slice(css.indexOf(`[data-theme="${theme}"]`)).split("}")[0]!;
    return Object.fromEntries(
        [...block.matchAll(/(--[\w-]+): (#[0-9a-f]{6})/g)].map((m) => [m[1]!, m[2]!]),
    );
}

function luminance(hex: string): number {
    const [r, g, b] = [1, 3, 5].map((at) => {
        const part = parseInt(hex.slice(at, at + 2), 16) / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light! + 0.05) / (dark! + 0.05);
}

const surfaces = ["--page", "--surface", "--raised", "--hover", "--chosen"];
const texts = ["--text", "--muted", "--accent", "--good", "--bad", "--warn", "--busy", "--idle"];
const marks = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--edge"];

for (const theme of ["light", "dark"]) {
    test(`${theme}: texts have 4.5:1, marks 3:1`, () => {
        const of = colours(theme);
        const check = (front: string, back: string, least: number) => {
            const found = contrast(of[front]!, of[back]!);
            assert.ok(found >= least, `${front} on ${back}: ${found.toFixed(2)} < ${least}`);
        };
        for (const surface of surfaces) for (const text of texts) check(text, surface, 4.5);
        for (const surface of ["--page", "--surface", "--raised"])
            for (const mark of marks) check(mark, surface, 3);
        check("--on-accent", "--accent", 4.5);
    });
}
