// One experiment: how it stands and why, its trials, its search, and what one can do with it.

import { useComputed } from "@preact/signals";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { useLoad } from "../../lib/load";
import type { Experiment, Paged, Trial } from "../../lib/types";
import { placeOf } from "../../lib/projects";
import { param, text } from "../../lib/url";
import { Empty, Head, Loaded, type Tab, Tabs } from "../../parts";
import { later } from "../../parts/later";
import { CheckpointTable } from "../../parts/checkpoint_table";
import { type Asked, actionsOf, Dialogs, useAsked } from "./actions";
import { Config } from "./config";
import { Headline } from "./headline";
import type { Known } from "./known";
import { Logs } from "./logs";
import { Metrics } from "./metrics";
import { Search } from "./search";
import { Timeline } from "./timeline";
import { Trials } from "./trials";
import "./experiment.css";

const Hyperparameters = later(() => import("./hyperparameters").then((all) => all.Hyperparameters));

const LOOKED_AT = 300; // trials, the best first, that charts and views of hyperparameters know

const tab = param("tab", text("metrics"));

const sortOf = (experiment: Experiment): string => {
    const searcher = experiment.config?.["searcher"] as { smaller_is_better?: boolean } | undefined;
    return searcher?.smaller_is_better === false ? "-metric" : "metric";
};

async function readExperiment(id: string, abort: AbortSignal): Promise<Known> {
    const { experiment } = await get<{ experiment: Experiment }>(`/experiments/${id}`, {}, abort);
    const { trials } = await get<{ trials: Trial[] } & Paged>(
        `/experiments/${id}/trials`,
        { sort: sortOf(experiment), limit: LOOKED_AT },
        abort,
    );
    return { experiment, trials };
}

function Panel({ known, asked }: { known: Known; asked: Asked }) {
    const { experiment } = known;
    switch (tab.value) {
        case "metrics":
            return <Metrics {...known} />;
        case "hyperparameters":
            return <Hyperparameters {...known} />;
        case "trials":
            return <Trials experiment={experiment} />;
        case "search":
            return <Search {...known} />;
        case "checkpoints":
            return <CheckpointTable experiment={experiment} />;
        case "config":
            return <Config experiment={experiment} asked={asked} />;
        case "logs":
            return <Logs {...known} />;
        case "timeline":
            return <Timeline {...known} />;
        default:
            return (
                <Empty title="There is no such tab">
                    <p>
                        <a href={`/experiments/${experiment.id}`}>The metrics</a> are here.
                    </p>
                </Empty>
            );
    }
}

const ofSearches = new Set(["hyperparameters", "search"]); // one trial has nothing to show in them

function tabsOf(experiment: Experiment): Tab[] {
    const isSearch = experiment.searcherType !== "single" || experiment.numTrials > 1;
    return [
        { id: "metrics", title: "Metrics" },
        { id: "trials", title: "Trials", count: experiment.numTrials },
        { id: "hyperparameters", title: "Hyperparameters" },
        { id: "search", title: "Search" },
        { id: "checkpoints", title: "Checkpoints", count: experiment.checkpointCount ?? 0 },
        { id: "logs", title: "Logs" },
        { id: "timeline", title: "Timeline" },
        { id: "config", title: "Configuration" },
    ].filter(({ id }) => isSearch || !ofSearches.has(id) || id === tab.value);
}

function Everything({ known, asked, reload }: { known: Known; asked: Asked; reload: () => void }) {
    const { experiment } = known;
    const tabs = tabsOf(experiment);
    return (
        <>
            <Headline {...known} asked={asked} />
            <Tabs label="About the experiment" at={tab} tabs={tabs} />
            <h2 class="hidden">{tabs.find(({ id }) => id === tab.value)?.title}</h2>
            <Panel known={known} asked={asked} />
            <Dialogs experiment={experiment} asked={asked} reload={reload} />
        </>
    );
}

export function Page({ id }: { id: string }) {
    const experimentId = Number(id);
    const load = useLoad((abort) => readExperiment(id, abort), {
        topics: ["experiments", "trials"],
        experimentId,
        every: 2,
    });
    const asked = useAsked();
    const experiment = useComputed(() => load.data.value?.experiment).value;
    const actions = experiment ? actionsOf(experiment, asked, load.reload) : [];
    useActions(actions);
    return (
        <main>
            <Head
                title={experiment ? `${experiment.id} · ${experiment.name}` : `Experiment ${id}`}
                crumbs={[
                    { title: "Experiments", href: "/experiments" },
                    ...(experiment
                        ? [
                              {
                                  title: placeOf(experiment),
                                  href: `/experiments?filter=${encodeURIComponent(`project = "${experiment.projectName}"`)}`,
                              },
                          ]
                        : []),
                ]}
                actions={actions}
            />
            <Loaded of={load}>
                {(known) => <Everything known={known} asked={asked} reload={load.reload} />}
            </Loaded>
        </main>
    );
}
