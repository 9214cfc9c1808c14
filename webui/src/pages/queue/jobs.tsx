// Jobs of one pool: those that wait in the order in which they are decided on, and those that run.
// One is moved by dragging, by its buttons, or by Alt and an arrow.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { type Action, act } from "../../lib/actions";
import { jobHref, jobTitle } from "../../lib/cluster";
import { count } from "../../lib/format";
import { toast } from "../../lib/notices";
import { mayChange } from "../../lib/session";
import type { Job } from "../../lib/types";
import {
    Ago,
    Button,
    copyItems,
    Due,
    Icon,
    Menu,
    type MenuItem,
    Progress,
    StateBadge,
    Time,
} from "../../parts";
import { musterMove } from "./priority";

export interface Steer {
    moved: () => void;
    choosePriority: (job: Job) => void;
}

const refusal = (job: Job) =>
    job.name ? mayChange(job.workspaceId, job.userId) : "It is a job of another team";

/** In a pool of shares the order among teams is the scheduler's; one's own jobs are one's own. */
function isBeside(job: Job, other: Job, isShared: boolean): boolean {
    if (job === other || !other.name) return false;
    return !isShared || (job.workspaceId === other.workspaceId && job.userId === other.userId);
}

function moveAction(job: Job, other: Job, ahead: boolean, name: string): Action {
    const key = ahead ? "aheadOf" : "behindOf";
    return {
        name,
        done: `${jobTitle(job)} stands ${ahead ? "before" : "behind"} ${jobTitle(other)}${
            job.priority === other.priority ? "" : `, with its priority ${other.priority}`
        }`,
        call: {
            method: "POST",
            path: "/job-queues",
            body: { updates: [{ jobId: job.jobId, [key]: other.jobId }] },
            ...(other.type === "TYPE_EXPERIMENT"
                ? musterMove(job, ahead ? "--ahead-of" : "--behind", other.entityId)
                : {}),
        },
    };
}

interface Moves {
    up?: Action;
    down?: Action;
    front?: Action;
}

function movesOf(jobs: readonly Job[], at: number, isShared: boolean): Moves {
    const job = jobs[at]!;
    const before = jobs.slice(0, at).filter((other) => isBeside(job, other, isShared));
    const after = jobs.slice(at + 1).find((other) => isBeside(job, other, isShared));
    const moves: Moves = {};
    if (before.length > 0) {
        moves.up = moveAction(job, before.at(-1)!, true, "Move up");
        moves.front = moveAction(job, before[0]!, true, "Move to the front");
    }
    if (after) moves.down = moveAction(job, after, false, "Move down");
    return moves;
}

function Title({ job }: { job: Job }) {
    const href = jobHref(job);
    const title = jobTitle(job);
    return href ? (
        <a class="job-title" href={href}>
            {title}
        </a>
    ) : (
        <span class="job-title">{title}</span>
    );
}

type Teams = ReadonlyMap<number, string>; // names by workspace

function Owner({ job, teams }: { job: Job; teams: Teams }) {
    return (
        <span class="muted">
            {[job.username, teams.get(job.workspaceId)].filter(Boolean).join(" in ")}
        </span>
    );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
    return (
        <div>
            <dt>{name}</dt>
            <dd>{children}</dd>
        </div>
    );
}

function jobMenu(job: Job, moves: Moves, steer: Steer): MenuItem[] {
    const move = (action: Action | undefined, icon: string): Action[] =>
        action ? [{ ...action, icon, run: steer.moved }] : [];
    const items: Action[] = [
        ...move(moves.front, "ascending"),
        { name: "Priority…", icon: "queue", run: () => steer.choosePriority(job) },
    ];
    if (job.type === "TYPE_EXPERIMENT")
        items.push({
            name: "Pause",
            icon: "pause",
            done: `${jobTitle(job)} is paused`,
            call: {
                method: "POST",
                path: `/experiments/${job.entityId}/pause`,
                muster: ["experiment", "pause", job.entityId],
            },
            run: steer.moved,
        });
    const copies = copyItems(items);
    return copies.length ? [...items, "-", ...copies] : items;
}

// --- what waits ----------------------------------------------------------------------------------

interface Drag {
    job: Job;
    over: string; // jobId; "": of none that it can stand beside
    ahead: boolean;
}

const ALONE = "Of its owner nothing else waits here, and the order among owners is the scheduler's";
const APART = "It can only be moved among jobs of its owner: the order among owners is the scheduler's";

interface RowProps {
    job: Job;
    place: number;
    moves: Moves;
    teams: Teams;
    steer: Steer;
    mark: "before" | "behind" | "";
    onMove: (action: Action | undefined) => void;
    onDrag: (job: Job | null) => void;
}

function Handles({ job, moves, onMove, onDrag }: RowProps) {
    const title = jobTitle(job);
    const grip = (event: DragEvent) => {
        const row = (event.currentTarget as Element).closest("li")!;
        event.dataTransfer!.setData("text/plain", job.jobId);
        event.dataTransfer!.effectAllowed = "move";
        event.dataTransfer!.setDragImage(row, 12, 12);
        onDrag(job);
    };
    return (
        <span class="job-moves">
            <span
                class="job-grip"
                draggable
                title="Drag to another place"
                onDragStart={grip}
                onDragEnd={() => onDrag(null)}
            >
                <Icon name="menu" />
            </span>
            <Button
                kind="quiet"
                icon="ascending"
                label={`Move ${title} up`}
                disabled={!moves.up}
                onClick={() => onMove(moves.up)}
            />
            <Button
                kind="quiet"
                icon="descending"
                label={`Move ${title} down`}
                disabled={!moves.down}
                onClick={() => onMove(moves.down)}
            />
        </span>
    );
}

/** Where the grip would be: who pulls there is told why it does not move. */
function Fixed({ why }: { why: string }) {
    const onDragStart = (event: DragEvent) => {
        event.preventDefault();
        toast(why, "bad");
    };
    return (
        <span class="job-grip job-fixed" draggable title={why} onDragStart={onDragStart}>
            <Icon name="menu" />
        </span>
    );
}

function WaitingRow(props: RowProps) {
    const { job, place, moves, steer, mark } = props;
    const refused = refusal(job);
    const fixed = refused ?? (moves.up || moves.down ? undefined : ALONE);
    const onKey = (event: KeyboardEvent) => {
        if (!event.altKey || !/^Arrow(Up|Down)$/.test(event.key)) return;
        event.preventDefault();
        if (fixed) toast(fixed, "bad");
        else props.onMove(event.key === "ArrowUp" ? moves.up : moves.down);
    };
    return (
        <li
            class={`job${mark && ` job-${mark}`}`}
            data-job={job.jobId}
            onKeyDown={onKey}
        >
            <span class="job-place num">{place}</span>
            <div class="job-main">
                <div class="line">
                    <Title job={job} />
                    <Owner job={job} teams={props.teams} />
                </div>
                <p class="job-why">{job.reason || "has just been queued"}</p>
            </div>
            <dl class="job-facts num">
                <Fact name="Starts">
                    {job.estimatedStart ? (
                        <>
                            about <Time at={job.estimatedStart} />
                            <span class="muted">
                                {" "}
                                (<Due at={job.estimatedStart} />)
                            </span>
                        </>
                    ) : (
                        "not foreseen"
                    )}
                </Fact>
                <Fact name="Submitted">
                    <Ago at={job.submissionTime} />
                </Fact>
                <Fact name="Slots">{job.requestedSlots}</Fact>
                <Fact name="Priority">{job.priority}</Fact>
            </dl>
            <span class="job-tools">
                {fixed ? <Fixed why={fixed} /> : <Handles {...props} />}
                {!refused && (
                    <Menu
                        label={`More for ${jobTitle(job)}`}
                        icon="more"
                        kind="quiet"
                        items={jobMenu(job, moves, steer)}
                    />
                )}
            </span>
        </li>
    );
}

export function Waiting(props: {
    jobs: readonly Job[];
    isShown: (job: Job) => boolean;
    isShared: boolean;
    teams: Teams;
    steer: Steer;
}) {
    const { jobs, isShown, isShared, steer } = props;
    const drag = useSignal<Drag | null>(null);
    const move = async (action: Action | undefined) => {
        if (!action) return;
        const held = document.activeElement;
        if (await act(action)) steer.moved();
        if (held instanceof HTMLElement) held.focus();
    };
    const apart = useRef(false); // over one that it cannot stand beside, when it was let go
    const begin = (own: Job | null) => {
        if (!own && apart.current) toast(APART, "bad");
        apart.current = false;
        drag.value = own && { job: own, over: "", ahead: true };
    };
    const over = (event: DragEvent) => {
        const row = (event.target as Element).closest<HTMLElement>("li[data-job]");
        const held = drag.peek();
        const other = jobs.find((job) => job.jobId === row?.dataset["job"]);
        apart.current = false;
        if (!row || !held || !other || other === held.job) return;
        if (!isBeside(held.job, other, isShared)) {
            apart.current = true;
            if (held.over) drag.value = { ...held, over: "" };
            return;
        }
        event.preventDefault();
        const { top, height } = row.getBoundingClientRect();
        const ahead = event.clientY < top + height / 2;
        if (held.over !== other.jobId || held.ahead !== ahead)
            drag.value = { job: held.job, over: other.jobId, ahead };
    };
    const drop = (event: DragEvent) => {
        event.preventDefault();
        const held = drag.peek();
        const other = jobs.find((job) => job.jobId === held?.over);
        drag.value = null;
        if (held && other) void move(moveAction(held.job, other, held.ahead, "Move"));
    };
    const rows = jobs.map((job, i) => ({ job, i })).filter(({ job }) => isShown(job));
    return (
        <div>
            <h3>Waiting{rows.length > 0 && ` · ${rows.length}`}</h3>
            {rows.length === 0 ? (
                <p class="muted">{jobs.length ? "None of yours waits." : "Nothing waits."}</p>
            ) : (
                <ol class="jobs" onDragOver={over} onDrop={drop}>
                    {rows.map(({ job, i }) => {
                        const held = drag.value;
                        const isOver = held?.over === job.jobId;
                        return (
                            <WaitingRow
                                key={job.jobId}
                                job={job}
                                place={i + 1}
                                moves={movesOf(jobs, i, isShared)}
                                teams={props.teams}
                                steer={steer}
                                mark={isOver ? (held!.ahead ? "before" : "behind") : ""}
                                onMove={(action) => void move(action)}
                                onDrag={begin}
                            />
                        );
                    })}
                </ol>
            )}
        </div>
    );
}

// --- what runs -----------------------------------------------------------------------------------

function RunningRow({ job, teams, steer }: { job: Job; teams: Teams; steer: Steer }) {
    const { allocatedSlots: held, requestedSlots: wanted } = job;
    return (
        <li class="job">
            <span class="job-place">
                <StateBadge state={job.reason ? "TERMINATING" : "RUNNING"} />
            </span>
            <div class="job-main">
                <div class="line">
                    <Title job={job} />
                    <Owner job={job} teams={teams} />
                </div>
                {job.reason && <p class="job-why">{job.reason}</p>}
            </div>
            <dl class="job-facts num">
                <Fact name="Progress">
                    <Progress value={job.progress ?? 0} label={`Progress of ${jobTitle(job)}`} />
                </Fact>
                <Fact name="Submitted">
                    <Ago at={job.submissionTime} />
                </Fact>
                <Fact name="Slots">{held < wanted ? `${held} of ${wanted}` : held}</Fact>
                <Fact name="Priority">{job.priority}</Fact>
            </dl>
            <span class="job-tools">
                {!refusal(job) && (
                    <Menu
                        label={`More for ${jobTitle(job)}`}
                        icon="more"
                        kind="quiet"
                        items={jobMenu(job, {}, steer)}
                    />
                )}
            </span>
        </li>
    );
}

export function Running(props: { jobs: readonly Job[]; teams: Teams; steer: Steer }) {
    const { jobs, teams, steer } = props;
    const slots = jobs.reduce((sum, job) => sum + job.allocatedSlots, 0);
    return (
        <div>
            <h3>
                Running · {jobs.length} on {count(slots, "slot")}
            </h3>
            <ul class="jobs">
                {jobs.map((job) => (
                    <RunningRow key={job.jobId} job={job} teams={teams} steer={steer} />
                ))}
            </ul>
        </div>
    );
}
