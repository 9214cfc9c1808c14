// The contrast of the colours in tokens.css, as WCAG defines it, on all surfaces of both themes.

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
const marks = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8", "--c9", "--edge"];

for (const theme of ["light", "dark"]) {
    test(`${theme}: text has a contrast of 4.5:1, graphics of 3:1`, () => {
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

// --- the distance between the colours of lines ---------------------------------------------------

type Triple = readonly [number, number, number];

const mixed = (rows: readonly Triple[], [x, y, z]: Triple): Triple =>
    rows.map(([a, b, c]) => a * x + b * y + c * z) as unknown as Triple;

// Simulations of colour blindness in linear RGB (Machado, Oliveira, Fernandes 2009).
const VISIONS: Record<string, readonly Triple[]> = {
    all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
};

/** OKLab (Ottosson 2020), times 100. */
function oklab(hex: string, vision: readonly Triple[]): Triple {
    const linear = [1, 3, 5].map((at) => {
        const part = parseInt(hex.slice(at, at + 2), 16) / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    }) as unknown as Triple;
    const seen = mixed(vision, linear).map((part) => Math.min(1, Math.max(0, part))) as unknown as Triple;
    const cones = mixed([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                         [0.0883024619, 0.2817188376, 0.6299787005]], seen).map(Math.cbrt) as unknown as Triple;
    return mixed([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
                  [0.0259040371, 0.7827717662, -0.808675766]], cones).map((part) => 100 * part) as unknown as Triple;
}

for (const theme of ["light", "dark"])
    for (const [vision, least] of [["all", 15], ["protanopia", 9.5], ["deuteranopia", 9.5]] as const)
        test(`${theme}: ten line colours are distinguishable, ${vision}`, () => {
            const of = colours(theme);
            const points = marks.slice(0, 10).map((name) => [name, oklab(of[name]!, VISIONS[vision]!)] as const);
            for (const [a, [l, m, s]] of points)
                for (const [b, other] of points) {
                    const apart = Math.hypot(l - other[0], m - other[1], s - other[2]);
                    assert.ok(a === b || apart >= least, `${a} and ${b} are ${apart.toFixed(1)} apart`);
                }
        });
