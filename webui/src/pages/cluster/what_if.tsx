// A simulation of the recent jobs with more agents, by the master's simulator.

import { get } from "../../lib/api";
import { shellQuote } from "../../lib/command_line";
import { count, duration, percent } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin } from "../../lib/session";
import type { ResourcePool } from "../../lib/types";
import { number, queryParam, text } from "../../lib/url";
import { Bar, Copy, Empty, Loaded, Select } from "../../parts";

interface Hours {
    count: number;
    mean: number;
    median: number;
    p99: number;
}

interface SimulationResult {
    nodes: number;
    slots: number;
    jobs: number;
    tooLarge: number;
    completionHours: Hours;
    waits: { slots: string; hours: Hours }[];
    use: number;
    preemptions: number;
}

interface Comparison {
    jobs: number;
    unstarted: number;
    slotsPerNode: number;
    now: SimulationResult;
    then: SimulationResult;
}

const addedAgents = queryParam("add", number(2));
const slotsPerAgent = queryParam("size", number(0)); // 0: as most agents have
const days = queryParam("days", text("14"));
const pool = queryParam("pool", text());

const periods = ["7", "14", "30", "90"].map((value) => ({ value, title: `${value} days` }));

function NumberInput(props: { label: string; bind: { value: number }; hint?: string }) {
    const { label, bind, hint } = props;
    return (
        <label class="line">
            <span class="muted">{label}</span>
            <input
                class="input what-if-number"
                type="number"
                min={1}
                max={1024}
                value={bind.value || ""}
                placeholder={hint}
                onChange={(event) => (bind.value = Math.max(0, Number(event.currentTarget.value)))}
            />
        </label>
    );
}

// --- the figures ---------------------------------------------------------------------------------

const hoursText = (value: number) => (value === 0 ? "none" : duration(3600 * value));

function meanWait({ waits }: SimulationResult): number {
    const jobs = waits.reduce((sum, wait) => sum + wait.hours.count, 0);
    const all = waits.reduce((sum, wait) => sum + wait.hours.count * wait.hours.mean, 0);
    return jobs ? all / jobs : 0;
}

interface Figure {
    name: string;
    now: number;
    then: number;
    format: (value: number) => string;
    max: number; // the length of a full bar
}

function figures({ now, then }: Comparison): Figure[] {
    const figure = (name: string, a: number, b: number, format = hoursText, max = Math.max(a, b)) => ({
        name,
        now: a,
        then: b,
        format,
        max,
    });
    return [
        figure("Mean wait", meanWait(now), meanWait(then)),
        ...now.waits.flatMap((wait, i) =>
            wait.hours.count
                ? [
                      figure(
                          `Jobs on ${wait.slots} ${wait.slots === "1" ? "slot" : "slots"}`,
                          wait.hours.mean,
                          then.waits[i]!.hours.mean,
                      ),
                  ]
                : [],
        ),
        figure("Mean completion time", now.completionHours.mean, then.completionHours.mean),
        figure("Slots in use", now.use, then.use, percent, 1),
        figure("Preemptions", now.preemptions, then.preemptions, String),
    ];
}

function FigureCell({ figure, value }: { figure: Figure; value: number }) {
    const text = figure.format(value);
    return (
        <td class="num">
            <Bar value={value} max={figure.max} label={`${figure.name}: ${text}`} />
            {text}
        </td>
    );
}

const clusterSize = ({ nodes, slots }: SimulationResult) =>
    `${count(nodes, "agent")}, ${count(slots, "slot")}`;

function ChangedValue({ then, now }: { then: string; now: string }) {
    return (
        <>
            <b>{then}</b> ({now === then ? "as now" : `now ${now}`})
        </>
    );
}

function Figures({ answer }: { answer: Comparison }) {
    const { now, then, unstarted } = answer;
    if (now.jobs + then.jobs === 0)
        return (
            <Empty title="No jobs ran in this pool in this period" icon="clock">
                <p>Choose a longer period.</p>
            </Empty>
        );
    return (
        <>
            <p class="what-if-sentence">
                With {count(then.nodes - now.nodes, "more agent")} of{" "}
                {count(answer.slotsPerNode, "slot")}, the {count(then.jobs, "job")} of this period would have waited{" "}
                <ChangedValue then={hoursText(meanWait(then))} now={hoursText(meanWait(now))} /> on average, and{" "}
                <ChangedValue then={percent(then.use)} now={percent(now.use)} /> of the slots would
                have been in use.
            </p>
            <table class="what-if">
                <thead>
                    <tr>
                        <th scope="col">
                            <span class="hidden">Figure</span>
                        </th>
                        <th scope="col">
                            Now <span class="muted">{clusterSize(now)}</span>
                        </th>
                        <th scope="col">
                            Then <span class="muted">{clusterSize(then)}</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {figures(answer).map((figure) => (
                        <tr key={figure.name}>
                            <th scope="row">{figure.name}</th>
                            <FigureCell figure={figure} value={figure.now} />
                            <FigureCell figure={figure} value={figure.then} />
                        </tr>
                    ))}
                </tbody>
            </table>
            <p class="muted">
                The figures come from the real scheduler, which replayed these jobs on both clusters without
                failures.
                {unstarted > 0 &&
                    ` ${count(unstarted, "job")} that never started ${unstarted === 1 ? "is" : "are"} left out, because the run time is unknown.`}
                {now.tooLarge > 0 && ` ${count(now.tooLarge, "job")} would not fit on the current cluster.`}
            </p>
        </>
    );
}

// --- the form ------------------------------------------------------------------------------------

async function readPools(abort: AbortSignal): Promise<ResourcePool[]> {
    const answer = await get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort);
    return answer.resourcePools;
}

function Simulation({ pool }: { pool: ResourcePool }) {
    const answer = useLoad((abort) => {
        const slots = slotsPerAgent.value ? { slotsPerNode: slotsPerAgent.value } : {};
        const query = { addNodes: addedAgents.value || 1, days: days.value, ...slots };
        const of = { resourcePool: pool.name, scheduler: pool.scheduler };
        return get<Comparison>("/simulate", { ...query, ...of }, abort);
    });
    return (
        <div class="stack" aria-live="polite" aria-busy={answer.busy.value}>
            <Loaded load={answer} label="Simulating">
                {(given) => <Figures answer={given} />}
            </Loaded>
        </div>
    );
}

function WhatIfForm({ pools }: { pools: readonly ResourcePool[] }) {
    const selected = pools.find((one) => one.name === pool.value) ?? pools[0]!;
    if (!pools.some((one) => one.numAgents > 0))
        return <Empty title="No agents connected yet" icon="cluster" />;
    const chosen = {
        get value() {
            return selected.name;
        },
        set value(name) {
            pool.value = name;
        },
    };
    const slots = slotsPerAgent.value ? ` --slots-per-node ${slotsPerAgent.value}` : "";
    const nodes = ` --add-nodes ${addedAgents.value || 1}`;
    const line = `muster simulate --from-store DATA_DIR --pool ${shellQuote(selected.name)}${nodes}${slots}`;
    return (
        <>
            <div class="line what-if-ask">
                {pools.length > 1 && (
                    <Select label="Pool" bind={chosen} options={pools.map((one) => one.name)} />
                )}
                <NumberInput label="Additional agents" bind={addedAgents} hint="1" />
                <NumberInput label="Slots per agent" bind={slotsPerAgent} hint="as now" />
                <Select label="Jobs of the last" bind={days} options={periods} />
            </div>
            {isAdmin() ? (
                <Simulation key={selected.name} pool={selected} />
            ) : (
                <p>
                    Only administrators can run the simulation here. With access to the master's data folder, use
                    this command:
                </p>
            )}
            <div class="line">
                <code class="what-if-line">{line}</code>
                <Copy text={line} label="Copy the command" />
            </div>
        </>
    );
}

export function WhatIf() {
    const pools = useLoad(readPools);
    return (
        <section class="card stack" aria-label="Simulation with more agents">
            <Loaded load={pools}>{(given) => <WhatIfForm pools={given} />}</Loaded>
        </section>
    );
}
