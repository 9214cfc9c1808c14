// Where in a configuration it is that the master speaks of.

export interface Mark {
    /** From 1. */
    line: number;
    message: string;
}

const PLACE = /^(?:config|overrideConfig):(\d+):(\d+): /;

/** "config:13:15: searcher.max_trials: .." is about line 13. */
export function readPlace(said: string): { message: string; marks: Mark[] } {
    const line = PLACE.exec(said)?.[1];
    const message = said.replace(PLACE, "Line $1, column $2: ");
    return { message, marks: line ? [{ line: Number(line), message }] : [] };
}
