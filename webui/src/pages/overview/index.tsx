// What the cluster does now: who holds it, what runs, what waits, what has failed lately.

import { useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { type Jobs, jobHref, jobTitle, readJobs } from "../../lib/cluster";
import { count, number } from "../../lib/format";
import { type Load, useLoad } from "../../lib/load";
import type { Experiment, ResourcePool, Share } from "../../lib/types";
import { Bar, Due, Head, Icon, LinkButton, Loaded, ShareKey, Shares } from "../../parts";
import { Greeting } from "../../parts/greeting";
import { Failures } from "./failures";
import { RunningExperiments } from "./running";
import "./overview.css";

const FIRST = 6; // of what waits

interface Overview {
    pools: ResourcePool[];
    shares: Share[];
    waiting: Jobs;
}

async function read(abort: AbortSignal): Promise<Overview> {
    const [{ resourcePools: pools }, { shares }, waiting] = await Promise.all([
        get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort),
        get<{ shares: Share[] }>("/shares", {}, abort),
        readJobs({ states: "STATE_QUEUED", limit: FIRST }, abort),
    ]);
    return { pools, shares, waiting };
}

function Pool({ pool, shares }: { pool: ResourcePool; shares: readonly Share[] }) {
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
                            <Icon name="warning" /> {number(agentsAway)} more not heard
                        </span>
                    ) : null}
                </h2>
                <a href={`/queue?pool=${encodeURIComponent(name)}`}>
                    {waiting ? `${waiting} waiting` : "nothing waits"}
                </a>
            </div>
            <p class="overview-use">
                <b class="num">
                    {used} of {all}
                </b>{" "}
                slots in use
                <Bar value={used} of={all} label={`${used} of ${count(all, "slot")} in use`} />
            </p>
            {teams.length > 0 && <Shares shares={teams} slots={all} brief />}
        </section>
    );
}

function Queue({ waiting }: { waiting: Jobs }) {
    return (
        <section class="card stack" aria-label="Queue">
            <div class="spread">
                <h2>Waiting</h2>
                <a href="/queue">{waiting.total > FIRST ? `All ${waiting.total}` : "Queue"}</a>
            </div>
            {waiting.total === 0 && <p class="muted">Nothing waits.</p>}
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
                                        starts <Due at={job.estimatedStart} />
                                    </>
                                ) : (
                                    "start not foreseen"
                                )}
                            </span>
                        </div>
                        <p class="overview-why">{job.reason}</p>
                    </li>
                ))}
            </ol>
        </section>
    );
}

function Now() {
    const overview = useLoad(read, { topics: ["queue", "agents", "workspaces"], every: 1 });
    return (
        <Loaded of={overview}>
            {({ pools, shares, waiting }) => (
                <>
                    <div class="overview-pools">
                        {pools.map((pool) => (
                            <Pool key={pool.name} pool={pool} shares={shares} />
                        ))}
                    </div>
                    {shares.length > 0 && <ShareKey />}
                    <div class="overview-columns">
                        <div class="stack">
                            <RunningExperiments />
                            <Failures />
                        </div>
                        <Queue waiting={waiting} />
                    </div>
                </>
            )}
        </Loaded>
    );
}

/** Whether there is any experiment; asked again only until there is one. */
function useAny(): Load<boolean> {
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
    const any = useAny();
    return (
        <main>
            <Head title="Overview">
                <LinkButton href="/experiments/new" icon="plus" main>
                    New experiment
                </LinkButton>
            </Head>
            <Loaded of={any}>{(isAny) => (isAny ? <Now /> : <Greeting />)}</Loaded>
        </main>
    );
}
