// What the searcher did and why: the rungs of each bracket, who reached them, and who was stopped.

import { get } from "../../lib/api";
import { count, metric, number, stateWord } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded } from "../../lib/runs";
import type { SearchBracket, SearchRung, SearchState, Trial } from "../../lib/types";
import { Icon, type IconName, Loaded } from "../../parts";
import type { Known } from "./known";

const methods: Record<string, string> = {
    single: "One trial, with the hyperparameters as they are written: there is nothing to search.",
    random: "Every trial has hyperparameters drawn at random; each is trained to its end.",
    grid: "Every combination of the hyperparameters' values is tried once.",
    async_halving:
        "Many short trainings, of which only the best go on (asynchronous successive halving).",
    adaptive_asha:
        "Many short trainings, of which only the best go on, in brackets that stop sooner or later (adaptive ASHA).",
};

type Outcome = "up" | "top" | "stopped" | "failed" | "running" | "ended";

const outcomes: Record<Outcome, readonly [icon: IconName, words: string]> = {
    up: ["ascending", "went on"],
    top: ["check", "trained to the end"],
    stopped: ["stop", "stopped here"],
    failed: ["warning", "failed"],
    running: ["play", "runs on"],
    ended: ["slash", "ended here"],
};

function outcomeOf(
    bracket: SearchBracket,
    place: number,
    trialId: number,
    trial: Trial | undefined,
): Outcome {
    const above = bracket.rungs[place + 1];
    if (above?.marks.some((mark) => mark.trialId === trialId)) return "up";
    const state = stateWord(trial?.state ?? "COMPLETED");
    if (state === "ERROR") return "failed";
    if (state === "CANCELED") return "ended";
    if (trial && !hasEnded(trial.state)) return "running";
    return above ? "stopped" : "top";
}

function Rung(props: {
    bracket: SearchBracket;
    place: number;
    rung: SearchRung;
    unit: string;
    trials: ReadonlyMap<number, Trial>;
}) {
    const { bracket, place, rung, unit, trials } = props;
    const isTop = place + 1 === bracket.rungs.length;
    const found = rung.marks.map((mark) => ({
        ...mark,
        outcome: outcomeOf(bracket, place, mark.trialId, trials.get(mark.trialId)),
    }));
    const stopped = found.filter(({ outcome }) => outcome === "stopped").length;
    const on = found.filter(({ outcome }) => outcome === "up" || outcome === "running").length;
    return (
        <section class="rung card">
            <h3>
                {isTop ? "Top" : `Rung ${place + 1}`}: {metric(rung.time)} {unit}
            </h3>
            <p class="muted">
                {count(found.length, "trial")} reached it
                {!isTop &&
                    found.length > 0 &&
                    `; ${number(on)} went on, ${number(stopped)} stopped`}
            </p>
            <ol class="marks">
                {found.map(({ trialId, metric: value, outcome }) => {
                    const [icon, words] = outcomes[outcome];
                    return (
                        <li key={trialId} class={`rung-mark rung-mark-${outcome}`}>
                            <Icon name={icon} label={words} />
                            <a href={`/trials/${trialId}`}>trial {trialId}</a>
                            <span class="grow muted rung-mark-words">{words}</span>
                            <span class="num">
                                {value === undefined ? "no number" : metric(value)}
                            </span>
                        </li>
                    );
                })}
            </ol>
        </section>
    );
}

function Bracket(props: {
    bracket: SearchBracket;
    title: string;
    state: SearchState;
    trials: ReadonlyMap<number, Trial>;
}) {
    const { bracket, title, state, trials } = props;
    const share = `1 of ${metric(state.divisor)}`;
    return (
        <section class="stack">
            <h2>{title}</h2>
            <p class="muted">
                {number(bracket.created)} of {count(bracket.trials, "trial")} made, at most{" "}
                {number(bracket.concurrent)} at a time. At each rung a trial goes on if, among those
                that have come that far, it is in the best {share} by {state.metric} (
                {state.smallerIsBetter ? "smaller" : "larger"} is better); the first always does.
            </p>
            <div class="rungs">
                {bracket.rungs.map((rung, i) => (
                    <Rung
                        key={i}
                        bracket={bracket}
                        place={i}
                        rung={rung}
                        unit={state.timeMetric ?? "steps"}
                        trials={trials}
                    />
                ))}
            </div>
        </section>
    );
}

export function Search({ experiment, trials }: Known) {
    const load = useLoad(
        (abort) => get<SearchState>(`/experiments/${experiment.id}/search`, {}, abort),
        { topics: ["trials"], experimentId: experiment.id, every: 2 },
    );
    const known = new Map(trials.map((trial) => [trial.id, trial]));
    return (
        <Loaded of={load}>
            {(state) => (
                <div class="stack">
                    <p class="cause">
                        {methods[state.method] ?? `The method is called ${state.method}.`}
                    </p>
                    {state.brackets.map((bracket, i) => (
                        <Bracket
                            key={i}
                            title={state.brackets.length > 1 ? `Bracket ${i + 1}` : "Rungs"}
                            bracket={bracket}
                            state={state}
                            trials={known}
                        />
                    ))}
                    {state.brackets.length === 0 && (
                        <p class="muted">
                            {count(experiment.numTrials, "trial")} so far. No trial is stopped
                            early: there are no rungs. The trials tab has what became of each.
                        </p>
                    )}
                </div>
            )}
        </Loaded>
    );
}
