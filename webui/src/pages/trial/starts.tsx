// All starts of a trial with their reasons, and the slot of each rank.

import { duration, millis, now } from "../../lib/format";
import { endReason, startReason } from "../../lib/experiment/starts";
import type { Start } from "../../lib/types";
import { Empty, StateBadge, Time } from "../../parts";

function secondsBetween(from: string | null | undefined, to: string | null | undefined): number {
    return ((to ? millis(to) : now.value) - millis(from)) / 1000;
}

/** The closeness of the slots on an agent, in words. */
const nearTexts: Record<string, string> = {
    nvlink: "one NVLink group",
    numa: "one NUMA node",
    apart: "several groups",
};

/** The slots of each agent with their ranks. One rank may use all slots of an agent. */
function RankMap({ start }: { start: Start }) {
    if (!start.parts.length) return <p class="muted">No slots yet.</p>;
    return (
        <ul class="ranks" aria-label={`Ranks of start ${start.epoch}`}>
            {start.parts.map((part) => (
                <li key={part.agent} class="rank-agent">
                    <span class="rank-name">{part.agent}</span>{" "}
                    <span class="muted">{nearTexts[part.near ?? ""]}</span>
                    <ul class="rank-slots">
                        {part.slots.map((slot, i) => (
                            <li key={slot} class="rank-slot">
                                <span class="num">rank {part.ranks[i] ?? part.ranks[0]}</span>
                                <span class="muted num">slot {slot}</span>
                            </li>
                        ))}
                    </ul>
                </li>
            ))}
        </ul>
    );
}

export function Starts({ starts }: { starts: readonly Start[] }) {
    if (!starts.length)
        return (
            <Empty title="Not started yet" icon="clock">
                <p>See its experiment for the reason.</p>
            </Empty>
        );
    return (
        <ol class="starts">
            {starts
                .map((start, i) => (
                    <li key={start.allocationId} class="card stack">
                        <div class="spread">
                            <h3>
                                Start {start.epoch}{" "}
                                <span class="muted">· {startReason(starts[i - 1])}</span>
                            </h3>
                            <StateBadge state={start.state} />
                        </div>
                        <dl class="headline-facts">
                            <div>
                                <dt>Queued</dt>
                                <dd>
                                    <Time at={start.queuedTime} />
                                </dd>
                            </div>
                            <div>
                                <dt>Waited</dt>
                                <dd class="num">
                                    {duration(secondsBetween(start.queuedTime, start.startTime))}
                                </dd>
                            </div>
                            <div>
                                <dt>Ran</dt>
                                <dd class="num">
                                    {start.startTime
                                        ? duration(secondsBetween(start.startTime, start.endTime))
                                        : "–"}
                                </dd>
                            </div>
                            <div>
                                <dt>{start.endTime ? "End reason" : "State"}</dt>
                                <dd>{start.endTime ? endReason(start) : "running"}</dd>
                            </div>
                            <div>
                                <dt>Allocation</dt>
                                <dd class="mono">{start.allocationId}</dd>
                            </div>
                        </dl>
                        <RankMap start={start} />
                    </li>
                ))
                .reverse()}
        </ol>
    );
}
