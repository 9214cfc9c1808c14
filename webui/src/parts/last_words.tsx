// The last lines of the rank that failed.

import type { Trial } from "../lib/types";
import "./last_words.css";

export function LastWords({ trial }: { trial: Pick<Trial, "id" | "lastWords"> }) {
    if (!trial.lastWords) return null;
    return (
        <code class="last-words" tabIndex={0} aria-label={`Last lines of trial ${trial.id}`}>
            {trial.lastWords}
        </code>
    );
}
