// What has failed lately, each in a sentence: what the master says of it, and the last words of the
// program.

import { get } from "../../lib/api";
import { duration, millis } from "../../lib/format";
import { useLive } from "../../lib/live";
import { useLoad } from "../../lib/load";
import type { Experiment, Trial } from "../../lib/types";
import { Ago, Icon, Loaded } from "../../parts";

const SHOWN = 5;

interface Failure {
    experiment: Experiment;
    trial?: Trial;
}

async function explain(experiment: Experiment, abort: AbortSignal): Promise<Failure> {
    const { trials } = await get<{ trials: Trial[] }>(
        `/experiments/${experiment.id}/trials`,
        { filter: "state = error", sort: "-id", limit: 1 },
        abort,
    );
    const trial = trials[0];
    return trial ? { experiment, trial } : { experiment };
}

async function read(abort: AbortSignal): Promise<Failure[]> {
    const { experiments } = await get<{ experiments: Experiment[] }>(
        "/experiments",
        { filter: "state = error", sort: "-ended", limit: SHOWN, omit: "config" },
        abort,
    );
    return Promise.all(experiments.map((experiment) => explain(experiment, abort)));
}

function Line({ experiment, trial }: Failure) {
    const words = trial?.lastWords?.split("\n").slice(-3).join("\n");
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
            {words && <p class="mono overview-words">{words}</p>}
        </li>
    );
}

export function Failures() {
    const failures = useLoad(read);
    useLive(
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
                <h2>Failed lately</h2>
                <a href="/experiments?filter=state+%3D+ERROR">All</a>
            </div>
            <Loaded of={failures}>
                {(given) => (
                    <>
                        {given.length === 0 && <p class="muted">Nothing has failed.</p>}
                        <ul class="overview-list">
                            {given.map((failure) => (
                                <Line key={failure.experiment.id} {...failure} />
                            ))}
                        </ul>
                    </>
                )}
            </Loaded>
        </section>
    );
}
