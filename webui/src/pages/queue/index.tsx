// What waits, why and for how long; what runs; and what teams are entitled to.

import { useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { type Jobs, readJobs } from "../../lib/cluster";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { user } from "../../lib/session";
import type { Job, ResourcePool, Share } from "../../lib/types";
import { flag, number, param, text } from "../../lib/url";
import { Bar, Button, Empty, Head, LinkButton, Loaded, Select, ShareKey, Shares, Switch } from "../../parts";
import { Running, type Steer, Waiting } from "./jobs";
import { PriorityDialog } from "./priority";
import "./queue.css";

const STEP = 200;
const pool = param("pool", text());
const mine = param("mine", flag());
const shown = param("show", number(STEP));
const users = param("users", flag());

interface Queue {
    pools: ResourcePool[];
    shares: Share[];
    waiting: Jobs;
    running: Jobs;
}

async function read(abort: AbortSignal): Promise<Queue> {
    const only = pool.value ? { resourcePool: pool.value } : {};
    const limit = shown.value;
    const [{ resourcePools: pools }, { shares }, waiting, running] = await Promise.all([
        get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort),
        get<{ shares: Share[] }>("/shares", only, abort),
        readJobs({ ...only, states: "STATE_QUEUED", limit }, abort),
        readJobs({ ...only, states: "STATE_SCHEDULED", limit }, abort),
    ]);
    return { pools, shares, waiting, running };
}

const policies: Record<string, string> = {
    fair_share: "fair share: teams below their share go first, then priority",
    priority: "priority: the smaller number first, then who came first",
    fifo: "first come, first served",
};

function Pool(props: { pool: ResourcePool; queue: Queue; steer: Steer }) {
    const { pool: own, queue, steer } = props;
    const isOurs = (job: Job) =>
        job.resourcePool === own.name && (!mine.value || job.userId === user.value?.id);
    const waiting = queue.waiting.jobs.filter((job) => job.resourcePool === own.name);
    const running = queue.running.jobs.filter(isOurs);
    const shares = queue.shares.filter((share) => share.resourcePool === own.name);
    const teams = new Map(shares.map((share) => [share.workspaceId, share.workspaceName]));
    const said = `${own.slotsUsed} of ${count(own.slotsAvailable, "slot")} in use`;
    return (
        <section class="card stack" aria-label={`Pool ${own.name}`}>
            <div class="spread">
                <div class="line">
                    <h2>{own.name}</h2>
                    <span class="muted">{policies[own.scheduler ?? ""] ?? own.scheduler}</span>
                </div>
                <span class="line num">
                    <Bar value={own.slotsUsed} of={own.slotsAvailable} label={said} /> {said}
                </span>
            </div>
            {shares.length > 0 && (
                <Shares shares={shares} slots={own.slotsAvailable} users={users.value} />
            )}
            <Waiting
                jobs={waiting}
                isShown={isOurs}
                isShared={own.scheduler === "fair_share"}
                teams={teams}
                steer={steer}
            />
            {running.length > 0 && <Running jobs={running} teams={teams} steer={steer} />}
        </section>
    );
}

function Rest({ jobs, word }: { jobs: Jobs; word: string }) {
    if (jobs.total <= jobs.jobs.length) return null;
    return (
        <p class="line muted">
            The first {count(jobs.jobs.length, "job")} of {jobs.total} that {word}.
            <Button onClick={() => (shown.value += STEP)}>Show more</Button>
        </p>
    );
}

export function Page() {
    const queue = useLoad(read, { topics: ["queue", "agents", "workspaces"], every: 1 });
    const priorityOf = useSignal<Job | null>(null);
    const data = queue.data.value;
    const steer: Steer = {
        moved: queue.reload,
        choosePriority: (job) => (priorityOf.value = job),
    };
    return (
        <main>
            <Head
                title="Queue"
                sub={
                    data && `${data.waiting.total} waiting · ${data.running.total} running`
                }
            >
                <Switch label="Only mine" at={mine} />
                <Switch label="Users of teams" at={users} />
                {data && data.pools.length > 1 && (
                    <Select
                        label="Pool"
                        at={pool}
                        options={[
                            { value: "", title: "All pools" },
                            ...data.pools.map((one) => one.name),
                        ]}
                    />
                )}
            </Head>
            <Loaded of={queue}>
                {(queue) => (
                    <>
                        {queue.shares.length > 0 && <ShareKey />}
                        {queue.pools
                            .filter((one) => !pool.value || one.name === pool.value)
                            .map((one) => (
                                <Pool key={one.name} pool={one} queue={queue} steer={steer} />
                            ))}
                        <Rest jobs={queue.waiting} word="wait" />
                        <Rest jobs={queue.running} word="run" />
                        {queue.pools.length === 0 && (
                            <Empty title="No agent has connected yet" icon="queue">
                                <LinkButton href="/">How to start one</LinkButton>
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
