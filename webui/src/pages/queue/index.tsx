// The queue: waiting jobs with their reasons and estimated starts, running jobs, and the shares of the teams.

import { useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { type JobList, readJobs } from "../../lib/cluster";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { user } from "../../lib/session";
import type { Job, ResourcePool, Share } from "../../lib/types";
import { flag, number, queryParam, text } from "../../lib/url";
import { Bar, Button, Empty, PageHead, LinkButton, Loaded, Select, ShareLegend, ShareTable, Switch } from "../../parts";
import { RunningJobs, type QueueControls, WaitingJobs } from "./jobs";
import { PriorityDialog } from "./priority_dialog";
import "./queue.css";

const PAGE_SIZE = 200;
const pool = queryParam("pool", text());
const showsMine = queryParam("mine", flag());
const shownCount = queryParam("show", number(PAGE_SIZE));
const showsUsers = queryParam("users", flag());

interface Queue {
    pools: ResourcePool[];
    shares: Share[];
    waiting: JobList;
    running: JobList;
}

async function readQueue(abort: AbortSignal): Promise<Queue> {
    const only = pool.value ? { resourcePool: pool.value } : {};
    const limit = shownCount.value;
    const [{ resourcePools: pools }, { shares }, waiting, running] = await Promise.all([
        get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort),
        get<{ shares: Share[] }>("/shares", only, abort),
        readJobs({ ...only, states: "STATE_QUEUED", limit }, abort),
        readJobs({ ...only, states: "STATE_SCHEDULED", limit }, abort),
    ]);
    return { pools, shares, waiting, running };
}

const policies: Record<string, string> = {
    fair_share: "Fair share: teams below their share first, then by priority",
    priority: "Priority: smaller numbers first, then in order of submission",
    fifo: "First come, first served",
};

function PoolCard(props: { pool: ResourcePool; queue: Queue; controls: QueueControls }) {
    const { pool, queue, controls } = props;
    const isOurs = (job: Job) =>
        job.resourcePool === pool.name && (!showsMine.value || job.userId === user.value?.id);
    const waiting = queue.waiting.jobs.filter((job) => job.resourcePool === pool.name);
    const running = queue.running.jobs.filter(isOurs);
    const shares = queue.shares.filter((share) => share.resourcePool === pool.name);
    const teams = new Map(shares.map((share) => [share.workspaceId, share.workspaceName]));
    const usage = `${pool.slotsUsed} of ${count(pool.slotsAvailable, "slot")} in use`;
    return (
        <section class="card stack" aria-label={`Pool ${pool.name}`}>
            <div class="spread">
                <div class="line">
                    <h2>{pool.name}</h2>
                    <span class="muted">{policies[pool.scheduler ?? ""] ?? pool.scheduler}</span>
                </div>
                <span class="line num">
                    <Bar value={pool.slotsUsed} max={pool.slotsAvailable} label={usage} /> {usage}
                </span>
            </div>
            {shares.length > 0 && (
                <ShareTable shares={shares} slots={pool.slotsAvailable} showsUsers={showsUsers.value} />
            )}
            <WaitingJobs
                jobs={waiting}
                isShown={isOurs}
                isShared={pool.scheduler === "fair_share"}
                teams={teams}
                controls={controls}
            />
            {running.length > 0 && <RunningJobs jobs={running} teams={teams} controls={controls} />}
        </section>
    );
}

function ShowMore({ jobs, state }: { jobs: JobList; state: string }) {
    if (jobs.total <= jobs.jobs.length) return null;
    return (
        <p class="line muted">
            Showing {jobs.jobs.length} of {count(jobs.total, `${state} job`)}.
            <Button onClick={() => (shownCount.value += PAGE_SIZE)}>Show more</Button>
        </p>
    );
}

export function Page() {
    const queue = useLoad(readQueue, { topics: ["queue", "agents", "workspaces"], minIntervalS: 1 });
    const priorityOf = useSignal<Job | null>(null);
    const data = queue.data.value;
    const controls: QueueControls = {
        onMoved: queue.reload,
        choosePriority: (job) => (priorityOf.value = job),
    };
    return (
        <main>
            <PageHead
                title="Queue"
                sub={
                    data && `${data.waiting.total} waiting · ${data.running.total} running`
                }
            >
                <Switch label="Only mine" bind={showsMine} />
                <Switch label="Show users" bind={showsUsers} />
                {data && data.pools.length > 1 && (
                    <Select
                        label="Pool"
                        bind={pool}
                        options={[
                            { value: "", title: "All pools" },
                            ...data.pools.map((one) => one.name),
                        ]}
                    />
                )}
            </PageHead>
            <Loaded load={queue}>
                {(queue) => (
                    <>
                        {queue.shares.length > 0 && <ShareLegend />}
                        {queue.pools
                            .filter((one) => !pool.value || one.name === pool.value)
                            .map((one) => (
                                <PoolCard key={one.name} pool={one} queue={queue} controls={controls} />
                            ))}
                        <ShowMore jobs={queue.waiting} state="waiting" />
                        <ShowMore jobs={queue.running} state="running" />
                        {queue.pools.length === 0 && (
                            <Empty title="No agents connected yet" icon="queue">
                                <LinkButton href="/">How to connect an agent</LinkButton>
                            </Empty>
                        )}
                    </>
                )}
            </Loaded>
            {priorityOf.value && (
                <PriorityDialog
                    job={priorityOf.value}
                    onClose={(isChanged) => {
                        priorityOf.value = null;
                        if (isChanged) queue.reload();
                    }}
                />
            )}
        </main>
    );
}
