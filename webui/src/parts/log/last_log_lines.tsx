// The last log lines of the rank that failed.

import type { Trial } from "../../lib/types";
import "./last_log_lines.css";

export function LastLogLines({ trial }: { trial: Pick<Trial, "id" | "lastWords"> }) {
    if (!trial.lastWords) return null;
    return (
        <code class="last-log-lines" tabIndex={0} aria-label={`Last lines of trial ${trial.id}`}>
            {trial.lastWords}
        </code>
    );
}
