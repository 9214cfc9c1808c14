// What more agents would have done with the jobs of the last days: the master's simulator says.

import { get } from "../../lib/api";
import { quote } from "../../lib/commands";
import { count, duration, percent } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin } from "../../lib/session";
import type { ResourcePool } from "../../lib/types";
import { number, param, text } from "../../lib/url";
import { Bar, Copy, Empty, Loaded, Select } from "../../parts";

interface Hours {
    count: number;
    mean: number;
    median: number;
    p99: number;
}

interface Simulated {
    nodes: number;
    slots: number;
    jobs: number;
    tooLarge: number;
    completionHours: Hours;
    waits: { slots: string; hours: Hours }[];
    use: number;
    preemptions: number;
}

interface Answer {
    jobs: number;
    unstarted: number;
    slotsPerNode: number;
    now: Simulated;
    then: Simulated;
}

const add = param("add", number(2));
const size = param("size", number(0)); // slots of each; 0: as most agents have
const days = param("days", text("14"));
const pool = param("pool", text());

const spans = ["7", "14", "30", "90"].map((value) => ({ value, title: `${value} days` }));

function NumberInput(props: { label: string; at: { value: number }; hint?: string }) {
    const { label, at, hint } = props;
    return (
        <label class="line">
            <span class="muted">{label}</span>
            <input
                class="input what-if-number"
                type="number"
                min={1}
                max={1024}
                value={at.value || ""}
                placeholder={hint}
                onChange={(event) => (at.value = Math.max(0, Number(event.currentTarget.value)))}
            />
        </label>
    );
}

// --- the figures ---------------------------------------------------------------------------------

const hours = (value: number) => (value === 0 ? "none" : duration(3600 * value));

function meanWait({ waits }: Simulated): number {
    const jobs = waits.reduce((sum, wait) => sum + wait.hours.count, 0);
    const all = waits.reduce((sum, wait) => sum + wait.hours.count * wait.hours.mean, 0);
    return jobs ? all / jobs : 0;
}

interface Figure {
    name: string;
    now: number;
    then: number;
    words: (value: number) => string;
    of: number; // the whole bar
}

function figuresOf({ now, then }: Answer): Figure[] {
    const line = (name: string, a: number, b: number, words = hours, of = Math.max(a, b)) => ({
        name,
        now: a,
        then: b,
        words,
        of,
    });
    return [
        line("Mean wait", meanWait(now), meanWait(then)),
        ...now.waits.flatMap((wait, i) =>
            wait.hours.count
                ? [
                      line(
                          `of jobs on ${wait.slots} ${wait.slots === "1" ? "slot" : "slots"}`,
                          wait.hours.mean,
                          then.waits[i]!.hours.mean,
                      ),
                  ]
                : [],
        ),
        line("Mean time to the end", now.completionHours.mean, then.completionHours.mean),
        line("Slots in use", now.use, then.use, percent, 1),
        line("Preemptions", now.preemptions, then.preemptions, String),
    ];
}

function Cell({ figure, value }: { figure: Figure; value: number }) {
    const said = figure.words(value);
    return (
        <td class="num">
            <Bar value={value} of={figure.of} label={`${figure.name}: ${said}`} />
            {said}
        </td>
    );
}

const machines = ({ nodes, slots }: Simulated) =>
    `${count(nodes, "agent")}, ${count(slots, "slot")}`;

function Instead({ then, now }: { then: string; now: string }) {
    return (
        <>
            <b>{then}</b> ({now === then ? "as now" : `now ${now}`})
        </>
    );
}

function Figures({ answer }: { answer: Answer }) {
    const { now, then, unstarted } = answer;
    if (now.jobs + then.jobs === 0)
        return (
            <Empty title="No job of this pool has run in this time" icon="clock">
                <p>Choose a longer time.</p>
            </Empty>
        );
    return (
        <>
            <p class="what-if-sentence">
                With {count(then.nodes - now.nodes, "more agent")} of{" "}
                {count(answer.slotsPerNode, "slot")}, the {count(then.jobs, "job")} of this time
                would have waited <Instead then={hours(meanWait(then))} now={hours(meanWait(now))} /> on
                average, and <Instead then={percent(then.use)} now={percent(now.use)} /> of the slots would
                have been in use.
            </p>
            <table class="what-if">
                <thead>
                    <tr>
                        <th scope="col">
                            <span class="hidden">Figure</span>
                        </th>
                        <th scope="col">
                            Now <span class="muted">{machines(now)}</span>
                        </th>
                        <th scope="col">
                            Then <span class="muted">{machines(then)}</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {figuresOf(answer).map((figure) => (
                        <tr key={figure.name}>
                            <th scope="row">{figure.name}</th>
                            <Cell figure={figure} value={figure.now} />
                            <Cell figure={figure} value={figure.then} />
                        </tr>
                    ))}
                </tbody>
            </table>
            <p class="muted">
                The scheduler itself has run over these jobs anew, once with each cluster, as if
                nothing had failed.
                {unstarted > 0 &&
                    ` ${count(unstarted, "job")} that never started ${unstarted === 1 ? "is" : "are"} left out, for nobody knows how long they would run.`}
                {now.tooLarge > 0 && ` ${count(now.tooLarge, "job")} fit on no such cluster as today's.`}
            </p>
        </>
    );
}

// --- the question --------------------------------------------------------------------------------

async function readPools(abort: AbortSignal): Promise<ResourcePool[]> {
    const answer = await get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort);
    return answer.resourcePools;
}

function Simulation({ own }: { own: ResourcePool }) {
    const answer = useLoad((abort) => {
        const slots = size.value ? { slotsPerNode: size.value } : {};
        const query = { addNodes: add.value || 1, days: days.value, ...slots };
        const of = { resourcePool: own.name, scheduler: own.scheduler };
        return get<Answer>("/simulate", { ...query, ...of }, abort);
    });
    return (
        <div class="stack" aria-live="polite" aria-busy={answer.busy.value}>
            <Loaded of={answer} label="Working it out">
                {(given) => <Figures answer={given} />}
            </Loaded>
        </div>
    );
}

function Ask({ pools }: { pools: readonly ResourcePool[] }) {
    const own = pools.find((one) => one.name === pool.value) ?? pools[0]!;
    if (!pools.some((one) => one.numAgents > 0))
        return <Empty title="No agent has connected yet" icon="cluster" />;
    const chosen = {
        get value() {
            return own.name;
        },
        set value(name) {
            pool.value = name;
        },
    };
    const slots = size.value ? ` --slots-per-node ${size.value}` : "";
    const nodes = ` --add-nodes ${add.value || 1}`;
    const line = `muster simulate --from-store DATA_DIR --pool ${quote(own.name)}${nodes}${slots}`;
    return (
        <>
            <div class="line what-if-ask">
                {pools.length > 1 && (
                    <Select label="Pool" at={chosen} options={pools.map((one) => one.name)} />
                )}
                <NumberInput label="More agents" at={add} hint="1" />
                <NumberInput label="Slots of each" at={size} hint="as now" />
                <Select label="Jobs of the last" at={days} options={spans} />
            </div>
            {isAdmin() ? (
                <Simulation key={own.name} own={own} />
            ) : (
                <p>
                    An administrator sees the answer here. Whoever can read the master's data
                    folder gets it by this command:
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
        <section class="card stack" aria-label="What if there were more agents">
            <Loaded of={pools}>{(given) => <Ask pools={given} />}</Loaded>
        </section>
    );
}
