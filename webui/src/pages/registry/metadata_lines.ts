// Metadata as lines of text for editing. Pure functions.

import type { Json, JsonObject } from "../../lib/types";

/** One line "name: value" per entry. Values other than text are written as JSON. */
export function metadataLines(metadata: JsonObject): string {
    return Object.entries(metadata)
        .map(([name, value]) => `${name}: ${isPlain(value) ? value : JSON.stringify(value)}`)
        .join("\n");
}

/** Returns whether a value is a text that needs no quotes, because it does not parse as JSON. */
function isPlain(value: Json): value is string {
    return typeof value === "string" && value.trim() === value && typeof parseValue(value) === "string"
        && !value.startsWith('"') && !value.includes("\n");
}

function parseValue(text: string): Json {
    try {
        return JSON.parse(text) as Json;
    } catch {
        return text;
    }
}

export function parseMetadata(text: string): JsonObject {
    const facts: JsonObject = {};
    for (const line of text.split("\n")) {
        const at = line.indexOf(":");
        if (!line.trim()) continue;
        if (at < 1) throw new Error(`Metadata: "${line.trim()}" does not have the form "name: value".`);
        facts[line.slice(0, at).trim()] = parseValue(line.slice(at + 1).trim());
    }
    return facts;
}
