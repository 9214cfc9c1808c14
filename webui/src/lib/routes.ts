// Matches addresses with patterns such as "/trials/:id". Pure functions.

export type PathParams = Record<string, string>;

/** The values of the :names in a pattern; undefined: the path does not match. */
export function matchPath(pattern: string, path: string): PathParams | undefined {
    const patternParts = pattern.split("/");
    const parts = path.length > 1 ? path.replace(/\/$/, "").split("/") : ["", ""];
    if (patternParts.length !== parts.length) return undefined;
    const params: PathParams = {};
    for (const [i, word] of patternParts.entries()) {
        const part = parts[i]!;
        if (word.startsWith(":") && part) params[word.slice(1)] = safeDecode(part);
        else if (word !== part) return undefined;
    }
    return params;
}

function safeDecode(part: string): string {
    try {
        return decodeURIComponent(part);
    } catch {
        return part;
    }
}

/** The pattern with its :names replaced by values. */
export function fillPath(pattern: string, params: PathParams): string {
    return pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
}

export function findRoute<R>(
    rows: readonly R[],
    patternOf: (row: R) => string,
    path: string,
): { row: R; params: PathParams } | undefined {
    for (const row of rows) {
        const params = matchPath(patternOf(row), path);
        if (params) return { row, params };
    }
    return undefined;
}
