// The recent failures: the exit reason of each experiment, and the last lines of its log.

import { get } from "../../lib/api";
import { duration, millis } from "../../lib/format";
import { useEvents } from "../../lib/events/subscribe";
import { useLoad } from "../../lib/load";
import type { Experiment, Trial } from "../../lib/types";
import { Ago, Icon, Loaded } from "../../parts";

const MAX_SHOWN = 5;

interface Failure {
    experiment: Experiment;
    trial?: Trial;
}

async function readFailedTrial(experiment: Experiment, abort: AbortSignal): Promise<Failure> {
    const { trials } = await get<{ trials: Trial[] }>(
        `/experiments/${experiment.id}/trials`,
        { filter: "state = error", sort: "-id", limit: 1 },
        abort,
    );
    const trial = trials[0];
    return trial ? { experiment, trial } : { experiment };
}

async function readFailures(abort: AbortSignal): Promise<Failure[]> {
    const { experiments } = await get<{ experiments: Experiment[] }>(
        "/experiments",
        { filter: "state = error", sort: "-ended", limit: MAX_SHOWN, omit: "config" },
        abort,
    );
    return Promise.all(experiments.map((experiment) => readFailedTrial(experiment, abort)));
}

function FailureRow({ experiment, trial }: Failure) {
    const lastLines = trial?.lastWords?.split("\n").slice(-3).join("\n");
    const seconds = (millis(experiment.endTime) - millis(experiment.startTime)) / 1000;
    return (
        <li>
            <p class="overview-failure">
                <span class="bad">
                    <Icon name="warning" label="Failed" />
                </span>{" "}
                <a href={`/experiments/${experiment.id}`}>
                    #{experiment.id} {experiment.name}
                </a>{" "}
                failed <Ago at={experiment.endTime} /> after {duration(seconds)}
                {trial?.exitReason ? `: ${trial.exitReason}.` : "."}{" "}
                {trial && <a href={`/trials/${trial.id}?tab=logs`}>Log</a>}
            </p>
            {lastLines && <p class="mono overview-log">{lastLines}</p>}
        </li>
    );
}

export function Failures() {
    const failures = useLoad(readFailures);
    useEvents(
        { topics: ["experiments"] },
        (event) => {
            const known = failures.data.peek() ?? [];
            if (event.topic !== "experiments") return;
            const isKnown = known.some(({ experiment }) => experiment.id === event.id);
            if (isKnown ? event.deleted : event.state === "STATE_ERROR") failures.reload();
        },
        failures.reload,
    );
    return (
        <section class="card stack" aria-label="Recent failures">
            <div class="spread">
                <h2>Recent failures</h2>
                <a href="/experiments?filter=state+%3D+ERROR">All</a>
            </div>
            <Loaded load={failures}>
                {(given) => (
                    <>
                        {given.length === 0 && <p class="muted">No failures.</p>}
                        <ul class="overview-list">
                            {given.map((failure) => (
                                <FailureRow key={failure.experiment.id} {...failure} />
                            ))}
                        </ul>
                    </>
                )}
            </Loaded>
        </section>
    );
}
