// The page of an experiment: its state, its metrics and trials, its search, and the actions on it.

import { useComputed } from "@preact/signals";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { useLoad } from "../../lib/load";
import type { Experiment, Paged, Trial } from "../../lib/types";
import { projectTitle } from "../../lib/projects";
import { queryParam, text } from "../../lib/url";
import { Empty, PageHead, Loaded, type Tab, Tabs } from "../../parts";
import { lazy } from "../../parts/basic/lazy";
import { type OpenDialog, experimentActions, Dialogs, useOpenDialog } from "./actions";
import { Headline } from "./headline";
import type { ExperimentData } from "./experiment_data";
import { Logs } from "./logs";
import { Metrics } from "./metrics";
import { Trials } from "./trials";
import "./experiment.css";

const Hyperparameters = lazy(() => import("./hyperparameters").then((all) => all.Hyperparameters));
const CheckpointTable = lazy(() =>
    import("../../parts/checkpoint/checkpoint_table").then((all) => all.CheckpointTable),
);
const ConfigTab = lazy(() => import("./config").then((all) => all.ConfigTab));
const Search = lazy(() => import("./search").then((all) => all.Search));
const Timeline = lazy(() => import("./timeline").then((all) => all.Timeline));

const MAX_TRIALS = 300; // the best trials, which charts and the tab "Hyperparameters" show

const tab = queryParam("tab", text("metrics"));

const bestFirst = (experiment: Experiment): string => {
    const searcher = experiment.config?.["searcher"] as { smaller_is_better?: boolean } | undefined;
    return searcher?.smaller_is_better === false ? "-metric" : "metric";
};

async function readExperiment(id: string, abort: AbortSignal): Promise<ExperimentData> {
    const { experiment } = await get<{ experiment: Experiment }>(`/experiments/${id}`, {}, abort);
    const { trials } = await get<{ trials: Trial[] } & Paged>(
        `/experiments/${id}/trials`,
        { sort: bestFirst(experiment), limit: MAX_TRIALS },
        abort,
    );
    return { experiment, trials };
}

function Panel({ data, openDialog }: { data: ExperimentData; openDialog: OpenDialog }) {
    const { experiment } = data;
    switch (tab.value) {
        case "metrics":
            return <Metrics {...data} />;
        case "hyperparameters":
            return <Hyperparameters {...data} />;
        case "trials":
            return <Trials experiment={experiment} />;
        case "search":
            return <Search {...data} />;
        case "checkpoints":
            return <CheckpointTable experiment={experiment} />;
        case "config":
            return <ConfigTab experiment={experiment} openDialog={openDialog} />;
        case "logs":
            return <Logs {...data} />;
        case "timeline":
            return <Timeline {...data} />;
        default:
            return (
                <Empty title="Tab not found">
                    <p>
                        <a href={`/experiments/${experiment.id}`}>Show the metrics</a>
                    </p>
                </Empty>
            );
    }
}

const searchTabs = new Set(["hyperparameters", "search"]); // hidden for experiments with a single trial

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
    ].filter(({ id }) => isSearch || !searchTabs.has(id) || id === tab.value);
}

function ExperimentView({ data, openDialog, reload }: { data: ExperimentData; openDialog: OpenDialog; reload: () => void }) {
    const { experiment } = data;
    const tabs = tabsOf(experiment);
    return (
        <>
            <Headline {...data} openDialog={openDialog} />
            <Tabs label="Experiment" bind={tab} tabs={tabs} />
            <h2 class="hidden">{tabs.find(({ id }) => id === tab.value)?.title}</h2>
            <Panel data={data} openDialog={openDialog} />
            <Dialogs experiment={experiment} openDialog={openDialog} reload={reload} />
        </>
    );
}

export function Page({ id }: { id: string }) {
    const experimentId = Number(id);
    const load = useLoad((abort) => readExperiment(id, abort), {
        topics: ["experiments", "trials"],
        experimentId,
        minIntervalS: 2,
    });
    const openDialog = useOpenDialog();
    const experiment = useComputed(() => load.data.value?.experiment).value;
    const actions = experiment ? experimentActions(experiment, openDialog, load.reload) : [];
    useActions(actions);
    return (
        <main>
            <PageHead
                title={experiment ? `${experiment.id} · ${experiment.name}` : `Experiment ${id}`}
                crumbs={[
                    { title: "Experiments", href: "/experiments" },
                    ...(experiment
                        ? [
                              {
                                  title: projectTitle(experiment),
                                  href: `/experiments?filter=${encodeURIComponent(`project = "${experiment.projectName}"`)}`,
                              },
                          ]
                        : []),
                ]}
                actions={actions}
            />
            <Loaded load={load}>
                {(known) => <ExperimentView data={known} openDialog={openDialog} reload={load.reload} />}
            </Loaded>
        </main>
    );
}
