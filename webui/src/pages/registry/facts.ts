// Metadata as lines that one can type. Pure.

import type { Json, JsonObject } from "../../lib/types";

/** A line "name: value" for each fact; what is no text is JSON. */
export function factLines(metadata: JsonObject): string {
    return Object.entries(metadata)
        .map(([name, value]) => `${name}: ${isPlain(value) ? value : JSON.stringify(value)}`)
        .join("\n");
}

/** A text that does not read as JSON, and so needs no quotes. */
function isPlain(value: Json): value is string {
    return typeof value === "string" && value.trim() === value && typeof valueOf(value) === "string"
        && !value.startsWith('"') && !value.includes("\n");
}

function valueOf(text: string): Json {
    try {
        return JSON.parse(text) as Json;
    } catch {
        return text;
    }
}

export function readFacts(text: string): JsonObject {
    const facts: JsonObject = {};
    for (const line of text.split("\n")) {
        const at = line.indexOf(":");
        if (!line.trim()) continue;
        if (at < 1) throw new Error(`Metadata: "${line.trim()}" is not like "name: value".`);
        facts[line.slice(0, at).trim()] = valueOf(line.slice(at + 1).trim());
    }
    return facts;
}
