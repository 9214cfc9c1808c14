// The decisions of the searcher: the rungs of each bracket, the trials that reached them, and the trials that
// were stopped.

import { get } from "../../lib/api";
import { count, formatMetric, number, stateName } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded } from "../../lib/experiment/state";
import type { SearchBracket, SearchRung, SearchState, Trial } from "../../lib/types";
import { Icon, type IconName, Loaded } from "../../parts";
import type { ExperimentData } from "./experiment_data";

const methodTexts: Record<string, string> = {
    single: "A single trial with fixed hyperparameters: there is no search.",
    random: "Random search: each trial has random hyperparameters and is trained to the end.",
    grid: "Grid search: each combination of hyperparameters is trained once.",
    async_halving:
        "Asynchronous successive halving: many short trainings, of which only the best continue.",
    adaptive_asha:
        "Adaptive ASHA: many short trainings, of which only the best continue. Brackets differ in how early they stop trials.",
    hyperband:
        "Hyperband: in each bracket all trials train up to a rung; when all have stopped there, the best of them train on.",
    tpe: "TPE: each trial is near the good trials so far, by a model of their hyperparameters, and is trained to the end.",
    pbt: "Population based training: weak members are replaced by copies of strong ones, which start from their checkpoints with changed hyperparameters.",
};

type Outcome = "up" | "top" | "stopped" | "failed" | "running" | "ended" | "waiting";

const outcomeTexts: Record<Outcome, readonly [icon: IconName, words: string]> = {
    up: ["ascending", "continued"],
    top: ["check", "trained to the end"],
    stopped: ["stop", "stopped"],
    failed: ["warning", "failed"],
    running: ["play", "running"],
    ended: ["slash", "ended"],
    waiting: ["pause", "waiting for the others"],
};

function trialOutcome(
    bracket: SearchBracket,
    rungIndex: number,
    trialId: number,
    trial: Trial | undefined,
): Outcome {
    const above = bracket.rungs[rungIndex + 1];
    if (above?.marks.some((mark) => mark.trialId === trialId)) return "up";
    const state = stateName(trial?.state ?? "COMPLETED");
    if (state === "ERROR") return "failed";
    if (state === "CANCELED") return "ended";
    if (trial && !hasEnded(trial.state)) return "running";
    const rung = bracket.rungs[rungIndex];
    if (above && rung?.size && rung.marks.length < rung.size && !above.marks.length) return "waiting";
    return above ? "stopped" : "top";
}

function RungCard(props: {
    bracket: SearchBracket;
    rungIndex: number;
    rung: SearchRung;
    unit: string;
    trials: ReadonlyMap<number, Trial>;
}) {
    const { bracket, rungIndex, rung, unit, trials } = props;
    const isTop = rungIndex + 1 === bracket.rungs.length;
    const found = rung.marks.map((mark) => ({
        ...mark,
        outcome: trialOutcome(bracket, rungIndex, mark.trialId, trials.get(mark.trialId)),
    }));
    const stopped = found.filter(({ outcome }) => outcome === "stopped").length;
    const on = found.filter(({ outcome }) => outcome === "up" || outcome === "running").length;
    return (
        <section class="rung card">
            <h3>
                {isTop ? "Top" : `Rung ${rungIndex + 1}`}: {formatMetric(rung.time)} {unit}
            </h3>
            <p class="muted">
                {rung.size ? `${number(found.length)} of ${count(rung.size, "trial")}` : count(found.length, "trial")}{" "}
                reached it
                {!isTop &&
                    found.length > 0 &&
                    `; ${number(on)} continued, ${number(stopped)} stopped`}
            </p>
            <ol class="rung-trials">
                {found.map(({ trialId, metric: value, outcome }) => {
                    const [icon, words] = outcomeTexts[outcome];
                    return (
                        <li key={trialId} class={`rung-trial rung-trial-${outcome}`}>
                            <Icon name={icon} label={words} />
                            <a href={`/trials/${trialId}`}>trial {trialId}</a>
                            <span class="grow muted rung-trial-outcome">{words}</span>
                            <span class="num">
                                {value === undefined ? "not a number" : formatMetric(value)}
                            </span>
                        </li>
                    );
                })}
            </ol>
        </section>
    );
}

function BracketView(props: {
    bracket: SearchBracket;
    title: string;
    state: SearchState;
    trials: ReadonlyMap<number, Trial>;
}) {
    const { bracket, title, state, trials } = props;
    const share = `1 of ${formatMetric(state.divisor)}`;
    return (
        <section class="stack">
            <h2>{title}</h2>
            <p class="muted">
                Created {number(bracket.created)} of {count(bracket.trials, "trial")}, at most{" "}
                {number(bracket.concurrent)} at a time.{" "}
                {bracket.rungs[0]?.size
                    ? `At each rung, the best ${share} of its trials continue when all have reached it`
                    : `At each rung, a trial continues if it is in the best ${share} of the trials that have reached the rung`}
                , by {state.metric} ({state.smallerIsBetter ? "smaller" : "larger"} is better).
                {bracket.rungs[0]?.size ? "" : " The first trial always continues."}
            </p>
            <div class="rungs">
                {bracket.rungs.map((rung, i) => (
                    <RungCard
                        key={i}
                        bracket={bracket}
                        rungIndex={i}
                        rung={rung}
                        unit={state.timeMetric ?? "steps"}
                        trials={trials}
                    />
                ))}
            </div>
        </section>
    );
}

export function Search({ experiment, trials }: ExperimentData) {
    const load = useLoad(
        (abort) => get<SearchState>(`/experiments/${experiment.id}/search`, {}, abort),
        { topics: ["trials"], experimentId: experiment.id, minIntervalS: 2 },
    );
    const known = new Map(trials.map((trial) => [trial.id, trial]));
    return (
        <Loaded load={load}>
            {(state) => (
                <div class="stack">
                    <p class="state-reason">
                        {methodTexts[state.method] ?? `Search method: ${state.method}.`}
                    </p>
                    {state.brackets.map((bracket, i) => (
                        <BracketView
                            key={i}
                            title={state.brackets.length > 1 ? `Bracket ${i + 1}` : "Rungs"}
                            bracket={bracket}
                            state={state}
                            trials={known}
                        />
                    ))}
                    {state.brackets.length === 0 && (
                        <p class="muted">
                            {count(experiment.numTrials, "trial")} so far. This method has no rungs and stops no
                            trial early. See the tab "Trials" for the results.
                        </p>
                    )}
                </div>
            )}
        </Loaded>
    );
}
