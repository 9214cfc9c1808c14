// Errors and warnings of the master at a line of a configuration.

export interface Diagnostic {
    /** Counts from 1. */
    line: number;
    message: string;
}

const POSITION = /^(?:config|overrideConfig):(\d+):(\d+): /;

/** The position in a message such as "config:13:15: searcher.max_trials: ..", here line 13. */
export function parseDiagnostic(text: string): { message: string; diagnostics: Diagnostic[] } {
    const line = POSITION.exec(text)?.[1];
    const message = text.replace(POSITION, "Line $1, column $2: ");
    return { message, diagnostics: line ? [{ line: Number(line), message }] : [] };
}
