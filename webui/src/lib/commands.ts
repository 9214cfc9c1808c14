// What a call is on the command line: with muster, and with curl.

import { type Call, link } from "./api";

/** A word of a shell's line, in quotes when it needs them. */
export function quote(word: string | number): string {
    const given = String(word);
    if (/^[\w@%+=:,./-]+$/.test(given)) return given;
    return `'${given.replaceAll("'", `'\\''`)}'`;
}

export function musterLine(call: Call): string | undefined {
    return call.muster && ["muster", ...call.muster].map(quote).join(" ");
}

/** A line that works anywhere once MUSTER_TOKEN holds an access token. */
export function curlLine(call: Call, origin = location.origin): string {
    const words = ["curl", "-sS"];
    if (call.method !== "GET") words.push("-X", call.method);
    if (call.body !== undefined)
        words.push("-H", quote("Content-Type: application/json"));
    const head = `-H "Authorization: Bearer $MUSTER_TOKEN"`;
    const body = call.body === undefined ? [] : ["-d", quote(JSON.stringify(call.body))];
    return [...words, head, ...body, quote(origin + link(call.path))].join(" ");
}
