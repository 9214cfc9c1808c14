// What a team holds beside what it is entitled to, in slots of a pool.

import { count, metric } from "../lib/format";
import type { Share } from "../lib/types";
import "./share.css";

function shareText(share: Share): string {
    const { usedSlots: used, entitledSlots: entitled, wantedSlots: wanted } = share;
    const beyond = used - entitled;
    const tail =
        beyond > 0
            ? `, ${beyond} beyond its share, lent by others`
            : wanted > used
              ? `, wants ${wanted}`
              : "";
    return `holds ${used} of the ${count(entitled, "slot")} it is entitled to${tail}`;
}

/** `of`: slots of the pool, which is the whole width. */
export function ShareBar({ share, of, name }: { share: Share; of: number; name: string }) {
    const part = (slots: number) => `${of > 0 ? Math.min(100, (100 * slots) / of) : 0}%`;
    const own = Math.min(share.usedSlots, share.entitledSlots);
    return (
        <span
            class="share"
            role="img"
            aria-label={`${name} ${shareText(share)}`}
            title={`${name} ${shareText(share)}`}
            style={{
                "--own": part(own),
                "--lent": part(share.usedSlots - own),
                "--entitled": part(share.entitledSlots),
            }}
        >
            <span class="share-own" />
            <span class="share-lent" />
            <span class="share-mark" />
        </span>
    );
}

function limits(share: Share): string {
    const said: string[] = [];
    if (share.guaranteedSlots) said.push(`${share.guaranteedSlots} guaranteed`);
    if (share.maxSlots) said.push(`at most ${share.maxSlots}`);
    if (share.weight !== 1) said.push(`weight ${metric(share.weight)}`);
    return said.join(" · ");
}

function Line({ share, slots }: { share: Share; slots: number }) {
    const isUser = Boolean(share.userId);
    const name = isUser ? share.username : share.workspaceName || "Another team";
    return (
        <tr class={isUser ? "shares-user" : undefined}>
            <th scope="row">{name}</th>
            <td class="shares-bar">
                <ShareBar share={share} of={slots} name={name} />
            </td>
            <td class="num">
                {share.usedSlots} of {share.entitledSlots}
                <span class="hidden"> entitled</span>
            </td>
            <td class="num">{share.waitingJobs || "–"}</td>
            <td class="muted shares-limits">{limits(share)}</td>
        </tr>
    );
}

function isIdle(share: Share): boolean {
    return !share.usedSlots && !share.wantedSlots && !share.waitingJobs;
}

/** Teams that have or want slots of a pool; `brief`: without what is set for them. */
export function Shares(props: {
    shares: readonly Share[];
    slots: number;
    users?: boolean;
    brief?: boolean;
}) {
    const lines = props.shares.filter(
        (share) => (props.users || !share.userId) && !isIdle(share),
    );
    if (lines.length === 0) return null;
    return (
        <table class={`shares${props.brief ? " shares-brief" : ""}`}>
            <caption class="hidden">Shares of teams</caption>
            <thead>
                <tr>
                    <th scope="col">Team</th>
                    <th scope="col">Share of {count(props.slots, "slot")}</th>
                    <th scope="col">Held</th>
                    <th scope="col">Waiting</th>
                    <th scope="col" class="shares-limits">
                        Settings
                    </th>
                </tr>
            </thead>
            <tbody>
                {lines.map((share) => (
                    <Line
                        key={`${share.workspaceId} ${share.userId ?? ""}`}
                        share={share}
                        slots={props.slots}
                    />
                ))}
            </tbody>
        </table>
    );
}

/** What the marks of the bars mean. */
export function ShareKey() {
    return (
        <p class="share-key muted" aria-hidden="true">
            <span class="share-own" /> held
            <span class="share-lent" /> held beyond its share
            <span class="share-mark" /> entitled to
        </p>
    );
}
