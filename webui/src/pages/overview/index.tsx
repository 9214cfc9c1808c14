// The overview of the cluster: use of the pools, running and waiting experiments, recent failures.

import { useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { type JobList, jobHref, jobTitle, readJobs } from "../../lib/cluster";
import { count, number } from "../../lib/format";
import { type Load, useLoad } from "../../lib/load";
import type { Experiment, ResourcePool, Share } from "../../lib/types";
import { Bar, DueTime, PageHead, Icon, LinkButton, Loaded, ShareLegend, ShareTable } from "../../parts";
import { GettingStarted } from "../../parts/page/getting_started";
import { Failures } from "./failures";
import { RunningExperiments } from "./running";
import "./overview.css";

const MAX_WAITING = 6; // jobs shown

interface Overview {
    pools: ResourcePool[];
    shares: Share[];
    waiting: JobList;
}

async function readOverview(abort: AbortSignal): Promise<Overview> {
    const [{ resourcePools: pools }, { shares }, waiting] = await Promise.all([
        get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort),
        get<{ shares: Share[] }>("/shares", {}, abort),
        readJobs({ states: "STATE_QUEUED", limit: MAX_WAITING }, abort),
    ]);
    return { pools, shares, waiting };
}

function PoolCard({ pool, shares }: { pool: ResourcePool; shares: readonly Share[] }) {
    const { name, slotsUsed: used, slotsAvailable: all, numAgents, agentsAway, stats } = pool;
    const teams = shares.filter((share) => share.resourcePool === name && !share.userId);
    const waiting = stats?.queuedCount ?? 0;
    return (
        <section class="card stack" aria-label={`Pool ${name}`}>
            <div class="spread">
                <h2>
                    <a href={`/cluster?pool=${encodeURIComponent(name)}`}>{name}</a>{" "}
                    <span class="muted">{count(numAgents, "agent")}</span>
                    {agentsAway ? (
                        <span class="state-warn">
                            {" "}
                            <Icon name="warning" /> {number(agentsAway)} disconnected
                        </span>
                    ) : null}
                </h2>
                <a href={`/queue?pool=${encodeURIComponent(name)}`}>
                    {waiting ? `${waiting} waiting` : "none waiting"}
                </a>
            </div>
            <p class="overview-usage">
                <b class="num">
                    {used} of {all}
                </b>{" "}
                slots in use
                <Bar value={used} max={all} label={`${used} of ${count(all, "slot")} in use`} />
            </p>
            {teams.length > 0 && <ShareTable shares={teams} slots={all} isBrief />}
        </section>
    );
}

function QueueCard({ waiting }: { waiting: JobList }) {
    return (
        <section class="card stack" aria-label="Queue">
            <div class="spread">
                <h2>Waiting</h2>
                <a href="/queue">{waiting.total > MAX_WAITING ? `All ${waiting.total}` : "Queue"}</a>
            </div>
            {waiting.total === 0 && <p class="muted">The queue is empty.</p>}
            <ol class="overview-list">
                {waiting.jobs.map((job) => (
                    <li key={job.jobId}>
                        <div class="spread">
                            {jobHref(job) ? (
                                <a href={jobHref(job)}>{jobTitle(job)}</a>
                            ) : (
                                <span>{jobTitle(job)}</span>
                            )}
                            <span class="muted">
                                {job.estimatedStart ? (
                                    <>
                                        starts <DueTime at={job.estimatedStart} />
                                    </>
                                ) : (
                                    "no estimate"
                                )}
                            </span>
                        </div>
                        <p class="overview-reason">{job.reason}</p>
                    </li>
                ))}
            </ol>
        </section>
    );
}

function ClusterOverview() {
    const overview = useLoad(readOverview, { topics: ["queue", "agents", "workspaces"], minIntervalS: 1 });
    return (
        <Loaded load={overview}>
            {({ pools, shares, waiting }) => (
                <>
                    <div class="overview-pools">
                        {pools.map((pool) => (
                            <PoolCard key={pool.name} pool={pool} shares={shares} />
                        ))}
                    </div>
                    {shares.length > 0 && <ShareLegend />}
                    <div class="overview-columns">
                        <div class="stack">
                            <RunningExperiments />
                            <Failures />
                        </div>
                        <QueueCard waiting={waiting} />
                    </div>
                </>
            )}
        </Loaded>
    );
}

/** Returns whether the cluster has an experiment. Once it has one, this is not loaded again. */
function useHasExperiments(): Load<boolean> {
    const known = useSignal(false);
    return useLoad(
        async (abort) => {
            const query = { limit: 1, omit: "config" };
            type Listed = { experiments: Experiment[] };
            const { experiments } = await get<Listed>("/experiments", query, abort);
            return (known.value = experiments.length > 0);
        },
        known.value ? undefined : { topics: ["experiments"] },
    );
}

export function Page() {
    const hasExperiments = useHasExperiments();
    return (
        <main>
            <PageHead title="Overview">
                <LinkButton href="/experiments/new" icon="plus" main>
                    New experiment
                </LinkButton>
            </PageHead>
            <Loaded load={hasExperiments}>{(isAny) => (isAny ? <ClusterOverview /> : <GettingStarted />)}</Loaded>
        </main>
    );
}
