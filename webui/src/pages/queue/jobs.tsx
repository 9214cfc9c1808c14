// The jobs of a pool: the waiting ones in scheduling order, and the running ones. The user reorders waiting jobs
// by dragging, with buttons, or with Alt and an arrow key.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { type Action, runAction } from "../../lib/actions";
import { jobHref, jobTitle } from "../../lib/cluster";
import { count } from "../../lib/format";
import { toast } from "../../lib/toasts";
import { changeDeniedReason } from "../../lib/session";
import type { Job } from "../../lib/types";
import {
    Ago,
    Button,
    copyItems,
    DueTime,
    Icon,
    Menu,
    type MenuItem,
    Progress,
    StateBadge,
    Time,
} from "../../parts";
import { musterMove } from "./priority_dialog";

export interface QueueControls {
    onMoved: () => void;
    choosePriority: (job: Job) => void;
}

const deniedReason = (job: Job) =>
    job.name ? changeDeniedReason(job.workspaceId, job.userId) : "This job belongs to another team";

/** Returns whether a job may be moved next to another. With fair shares, their team and user must be the same. */
function canReorder(job: Job, other: Job, isShared: boolean): boolean {
    if (job === other || !other.name) return false;
    return !isShared || (job.workspaceId === other.workspaceId && job.userId === other.userId);
}

function moveAction(job: Job, other: Job, ahead: boolean, name: string): Action {
    const key = ahead ? "aheadOf" : "behindOf";
    return {
        name,
        doneText: `Moved ${jobTitle(job)} ${ahead ? "before" : "after"} ${jobTitle(other)}${
            job.priority === other.priority ? "" : `, to priority ${other.priority}`
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

function possibleMoves(jobs: readonly Job[], index: number, isShared: boolean): Moves {
    const job = jobs[index]!;
    const before = jobs.slice(0, index).filter((other) => canReorder(job, other, isShared));
    const after = jobs.slice(index + 1).find((other) => canReorder(job, other, isShared));
    const moves: Moves = {};
    if (before.length > 0) {
        moves.up = moveAction(job, before.at(-1)!, true, "Move up");
        moves.front = moveAction(job, before[0]!, true, "Move to the front");
    }
    if (after) moves.down = moveAction(job, after, false, "Move down");
    return moves;
}

function JobTitle({ job }: { job: Job }) {
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

type Teams = ReadonlyMap<number, string>; // names of teams by workspace id

function JobOwner({ job, teams }: { job: Job; teams: Teams }) {
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

function jobMenu(job: Job, moves: Moves, controls: QueueControls): MenuItem[] {
    const move = (action: Action | undefined, icon: string): Action[] =>
        action ? [{ ...action, icon, run: controls.onMoved }] : [];
    const items: Action[] = [
        ...move(moves.front, "ascending"),
        { name: "Priority…", icon: "queue", run: () => controls.choosePriority(job) },
    ];
    if (job.type === "TYPE_EXPERIMENT")
        items.push({
            name: "Pause",
            icon: "pause",
            doneText: `Paused ${jobTitle(job)}`,
            call: {
                method: "POST",
                path: `/experiments/${job.entityId}/pause`,
                muster: ["experiment", "pause", job.entityId],
            },
            run: controls.onMoved,
        });
    const copies = copyItems(items);
    return copies.length ? [...items, "-", ...copies] : items;
}

// --- waiting jobs --------------------------------------------------------------------------------

interface Drag {
    job: Job;
    onDragOver: string; // the jobId of the target; "": no valid target
    ahead: boolean;
}

const ONLY_JOB_OF_OWNER = "This owner has no other waiting job here. The scheduler decides the order among owners";
const OTHER_OWNER = "You can only reorder jobs of the same owner. The scheduler decides the order among owners";

interface RowProps {
    job: Job;
    position: number;
    moves: Moves;
    teams: Teams;
    controls: QueueControls;
    dropSide: "before" | "behind" | "";
    onMove: (action: Action | undefined) => void;
    onDrag: (job: Job | null) => void;
}

function MoveControls({ job, moves, onMove, onDrag }: RowProps) {
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
                title="Drag to reorder"
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

/** Replaces the grip of a job that cannot be moved. Dragging it shows the reason. */
function DisabledGrip({ reason }: { reason: string }) {
    const onDragStart = (event: DragEvent) => {
        event.preventDefault();
        toast(reason, "bad");
    };
    return (
        <span class="job-grip job-grip-disabled" draggable title={reason} onDragStart={onDragStart}>
            <Icon name="menu" />
        </span>
    );
}

function WaitingRow(props: RowProps) {
    const { job, position, moves, controls, dropSide } = props;
    const refused = deniedReason(job);
    const fixedReason = refused ?? (moves.up || moves.down ? undefined : ONLY_JOB_OF_OWNER);
    const onKey = (event: KeyboardEvent) => {
        if (!event.altKey || !/^Arrow(Up|Down)$/.test(event.key)) return;
        event.preventDefault();
        if (fixedReason) toast(fixedReason, "bad");
        else props.onMove(event.key === "ArrowUp" ? moves.up : moves.down);
    };
    return (
        <li
            class={`job${dropSide && ` job-${dropSide}`}`}
            data-job={job.jobId}
            onKeyDown={onKey}
        >
            <span class="job-position num">{position}</span>
            <div class="job-main">
                <div class="line">
                    <JobTitle job={job} />
                    <JobOwner job={job} teams={props.teams} />
                </div>
                <p class="job-reason">{job.reason || "Just queued"}</p>
            </div>
            <dl class="job-facts num">
                <Fact name="Starts">
                    {job.estimatedStart ? (
                        <>
                            about <Time at={job.estimatedStart} />
                            <span class="muted">
                                {" "}
                                (<DueTime at={job.estimatedStart} />)
                            </span>
                        </>
                    ) : (
                        "no estimate"
                    )}
                </Fact>
                <Fact name="Submitted">
                    <Ago at={job.submissionTime} />
                </Fact>
                <Fact name="Slots">{job.requestedSlots}</Fact>
                <Fact name="Priority">{job.priority}</Fact>
            </dl>
            <span class="job-tools">
                {fixedReason ? <DisabledGrip reason={fixedReason} /> : <MoveControls {...props} />}
                {!refused && (
                    <Menu
                        label={`More actions for ${jobTitle(job)}`}
                        icon="more"
                        kind="quiet"
                        items={jobMenu(job, moves, controls)}
                    />
                )}
            </span>
        </li>
    );
}

export function WaitingJobs(props: {
    jobs: readonly Job[];
    isShown: (job: Job) => boolean;
    isShared: boolean;
    teams: Teams;
    controls: QueueControls;
}) {
    const { jobs, isShown, isShared, controls } = props;
    const drag = useSignal<Drag | null>(null);
    const move = async (action: Action | undefined) => {
        if (!action) return;
        const held = document.activeElement;
        if (await runAction(action)) controls.onMoved();
        if (held instanceof HTMLElement) held.focus();
    };
    const isOverOther = useRef(false); // whether the drag is over an invalid target
    const onDrag = (own: Job | null) => {
        if (!own && isOverOther.current) toast(OTHER_OWNER, "bad");
        isOverOther.current = false;
        drag.value = own && { job: own, onDragOver: "", ahead: true };
    };
    const over = (event: DragEvent) => {
        const row = (event.target as Element).closest<HTMLElement>("li[data-job]");
        const held = drag.peek();
        const other = jobs.find((job) => job.jobId === row?.dataset["job"]);
        isOverOther.current = false;
        if (!row || !held || !other || other === held.job) return;
        if (!canReorder(held.job, other, isShared)) {
            isOverOther.current = true;
            if (held.onDragOver) drag.value = { ...held, onDragOver: "" };
            return;
        }
        event.preventDefault();
        const { top, height } = row.getBoundingClientRect();
        const ahead = event.clientY < top + height / 2;
        if (held.onDragOver !== other.jobId || held.ahead !== ahead)
            drag.value = { job: held.job, onDragOver: other.jobId, ahead };
    };
    const onDrop = (event: DragEvent) => {
        event.preventDefault();
        const held = drag.peek();
        const other = jobs.find((job) => job.jobId === held?.onDragOver);
        drag.value = null;
        if (held && other) void move(moveAction(held.job, other, held.ahead, "Move"));
    };
    const rows = jobs.map((job, i) => ({ job, i })).filter(({ job }) => isShown(job));
    return (
        <div>
            <h3>Waiting{rows.length > 0 && ` · ${rows.length}`}</h3>
            {rows.length === 0 ? (
                <p class="muted">{jobs.length ? "None of your jobs are waiting." : "No jobs are waiting."}</p>
            ) : (
                <ol class="jobs" onDragOver={over} onDrop={onDrop}>
                    {rows.map(({ job, i }) => {
                        const held = drag.value;
                        const isOver = held?.onDragOver === job.jobId;
                        return (
                            <WaitingRow
                                key={job.jobId}
                                job={job}
                                position={i + 1}
                                moves={possibleMoves(jobs, i, isShared)}
                                teams={props.teams}
                                controls={controls}
                                dropSide={isOver ? (held!.ahead ? "before" : "behind") : ""}
                                onMove={(action) => void move(action)}
                                onDrag={onDrag}
                            />
                        );
                    })}
                </ol>
            )}
        </div>
    );
}

// --- running jobs --------------------------------------------------------------------------------

function RunningRow({ job, teams, controls }: { job: Job; teams: Teams; controls: QueueControls }) {
    const { allocatedSlots: held, requestedSlots: wanted } = job;
    return (
        <li class="job">
            <span class="job-position">
                <StateBadge state={job.reason ? "TERMINATING" : "RUNNING"} />
            </span>
            <div class="job-main">
                <div class="line">
                    <JobTitle job={job} />
                    <JobOwner job={job} teams={teams} />
                </div>
                {job.reason && <p class="job-reason">{job.reason}</p>}
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
                {!deniedReason(job) && (
                    <Menu
                        label={`More actions for ${jobTitle(job)}`}
                        icon="more"
                        kind="quiet"
                        items={jobMenu(job, {}, controls)}
                    />
                )}
            </span>
        </li>
    );
}

export function RunningJobs(props: { jobs: readonly Job[]; teams: Teams; controls: QueueControls }) {
    const { jobs, teams, controls } = props;
    const slots = jobs.reduce((sum, job) => sum + job.allocatedSlots, 0);
    return (
        <div>
            <h3>
                Running · {jobs.length} on {count(slots, "slot")}
            </h3>
            <ul class="jobs">
                {jobs.map((job) => (
                    <RunningRow key={job.jobId} job={job} teams={teams} controls={controls} />
                ))}
            </ul>
        </div>
    );
}
