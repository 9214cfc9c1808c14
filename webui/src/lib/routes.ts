// Which row of a table of patterns an address belongs to. Pure.

export type Given = Record<string, string>;

/** What stands for the :names of a pattern; undefined: it is another address. */
export function matchPath(pattern: string, path: string): Given | undefined {
    const wanted = pattern.split("/");
    const parts = path.length > 1 ? path.replace(/\/$/, "").split("/") : ["", ""];
    if (wanted.length !== parts.length) return undefined;
    const given: Given = {};
    for (const [i, word] of wanted.entries()) {
        const part = parts[i]!;
        if (word.startsWith(":") && part) given[word.slice(1)] = safeDecode(part);
        else if (word !== part) return undefined;
    }
    return given;
}

function safeDecode(part: string): string {
    try {
        return decodeURIComponent(part);
    } catch {
        return part;
    }
}

/** The pattern with its names filled in. */
export function fillPath(pattern: string, given: Given): string {
    return pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(given[name] ?? ""));
}

export function findRow<R>(
    rows: readonly R[],
    patternOf: (row: R) => string,
    path: string,
): { row: R; given: Given } | undefined {
    for (const row of rows) {
        const given = matchPath(patternOf(row), path);
        if (given) return { row, given };
    }
    return undefined;
}
