// Calls as shell commands, for muster and for curl.

import { type Call, apiUrl } from "./api";

/** A word of a shell command, in quotes if it needs them. */
export function shellQuote(word: string | number): string {
    const text = String(word);
    if (/^[\w@%+=:,./-]+$/.test(text)) return text;
    return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function musterCommand(call: Call): string | undefined {
    return call.muster && ["muster", ...call.muster].map(shellQuote).join(" ");
}

/** A command that works on any machine when MUSTER_TOKEN holds an access token. */
export function curlCommand(call: Call, origin = location.origin): string {
    const words = ["curl", "-sS"];
    if (call.method !== "GET") words.push("-X", call.method);
    if (call.body !== undefined)
        words.push("-H", shellQuote("Content-Type: application/json"));
    const authorization = `-H "Authorization: Bearer $MUSTER_TOKEN"`;
    const body = call.body === undefined ? [] : ["-d", shellQuote(JSON.stringify(call.body))];
    return [...words, authorization, ...body, shellQuote(origin + apiUrl(call.path))].join(" ");
}
