// Writes JSON values as readable YAML. The master sends configurations as JSON.

import type { Json } from "../types";

/** Quotes a text that YAML would not read as the same text. */
function scalar(value: null | boolean | number | string): string {
    if (typeof value !== "string") return String(value);
    const isPlain =
        /^[A-Za-z_./][\w ./@%+=-]*$/.test(value) &&
        !value.endsWith(" ") &&
        !/^(true|false|null|yes|no|on|off|~|\.inf|\.nan)$/i.test(value);
    return isPlain ? value : JSON.stringify(value);
}

const isScalar = (value: Json): value is null | boolean | number | string =>
    value === null || typeof value !== "object";

function oneLine(value: Json): string | undefined {
    if (isScalar(value)) return scalar(value);
    const parts = Array.isArray(value) ? value : Object.values(value);
    if (parts.length === 0) return Array.isArray(value) ? "[]" : "{}";
    if (!Array.isArray(value) || !parts.every(isScalar)) return undefined;
    const text = `[${parts.map((part) => scalar(part as string)).join(", ")}]`;
    return text.length <= 72 ? text : undefined;
}

function writeLines(value: Json, indent: string, out: string[]): void {
    const entries: [string, Json][] = Array.isArray(value)
        ? value.map((one) => ["-", one])
        : Object.entries(value as { [key: string]: Json }).map(([key, one]) => [
              `${scalar(key)}:`,
              one,
          ]);
    for (const [head, one] of entries) {
        const short = oneLine(one);
        out.push(short === undefined ? `${indent}${head}` : `${indent}${head} ${short}`);
        if (short === undefined) writeLines(one, `${indent}  `, out);
    }
}

export function toYaml(value: Json): string {
    const short = oneLine(value);
    if (short !== undefined) return `${short}\n`;
    const out: string[] = [];
    writeLines(value, "", out);
    return `${out.join("\n")}\n`;
}
