// Every start of a trial with its reason, and which rank sat on which slot.

import { duration, millis, now } from "../../lib/format";
import { whyEnded, whyStarted } from "../../lib/runs";
import type { Start } from "../../lib/types";
import { Empty, StateBadge, Time } from "../../parts";

function seconds(from: string | null | undefined, to: string | null | undefined): number {
    return ((to ? millis(to) : now.value) - millis(from)) / 1000;
}

/** How near to each other the slots on an agent are. */
const nearWords: Record<string, string> = {
    nvlink: "one NVLink group",
    numa: "one NUMA node",
    apart: "no group had room for all",
};

/** Agents with their slots; in each the rank that runs there, which may be one for all. */
function RankMap({ start }: { start: Start }) {
    if (!start.parts.length) return <p class="muted">It has no slots yet.</p>;
    return (
        <ul class="ranks" aria-label={`Ranks of start ${start.epoch}`}>
            {start.parts.map((part) => (
                <li key={part.agent} class="rank-agent">
                    <span class="rank-name">{part.agent}</span>{" "}
                    <span class="muted">{nearWords[part.near ?? ""]}</span>
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
            <Empty title="It has not started yet" icon="clock">
                <p>Its experiment says what it waits for.</p>
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
                                <span class="muted">· {whyStarted(starts[i - 1])}</span>
                            </h3>
                            <StateBadge state={start.state} />
                        </div>
                        <dl class="headline-facts">
                            <div>
                                <dt>Asked for</dt>
                                <dd>
                                    <Time at={start.queuedTime} />
                                </dd>
                            </div>
                            <div>
                                <dt>Waited</dt>
                                <dd class="num">
                                    {duration(seconds(start.queuedTime, start.startTime))}
                                </dd>
                            </div>
                            <div>
                                <dt>Ran</dt>
                                <dd class="num">
                                    {start.startTime
                                        ? duration(seconds(start.startTime, start.endTime))
                                        : "–"}
                                </dd>
                            </div>
                            <div>
                                <dt>{start.endTime ? "Ended because" : "State"}</dt>
                                <dd>{start.endTime ? whyEnded(start) : "still there"}</dd>
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
