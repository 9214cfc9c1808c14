// The fair shares of teams: the slots that each team uses and is entitled to in a pool.

import { count, formatMetric } from "../../lib/format";
import type { Share } from "../../lib/types";
import "./fair_share.css";

function shareText(share: Share): string {
    const { usedSlots: used, entitledSlots: entitled, wantedSlots: wanted } = share;
    const borrowed = used - entitled;
    const tail =
        borrowed > 0
            ? `, ${borrowed} borrowed from others`
            : wanted > used
              ? `, wants ${wanted}`
              : "";
    return `uses ${used} of ${count(entitled, "entitled slot")}${tail}`;
}

/** `max`: the slots of the pool, as the full width. */
export function ShareBar({ share, max, name }: { share: Share; max: number; name: string }) {
    const part = (slots: number) => `${max > 0 ? Math.min(100, (100 * slots) / max) : 0}%`;
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
            <span class="share-used" />
            <span class="share-borrowed" />
            <span class="share-entitled" />
        </span>
    );
}

function limitText(share: Share): string {
    const parts: string[] = [];
    if (share.guaranteedSlots) parts.push(`${share.guaranteedSlots} guaranteed`);
    if (share.maxSlots) parts.push(`at most ${share.maxSlots}`);
    if (share.weight !== 1) parts.push(`weight ${formatMetric(share.weight)}`);
    return parts.join(" · ");
}

function ShareRow({ share, slots }: { share: Share; slots: number }) {
    const isUser = Boolean(share.userId);
    const name = isUser ? share.username : share.workspaceName || "Another team";
    return (
        <tr class={isUser ? "shares-user" : undefined}>
            <th scope="row">{name}</th>
            <td class="shares-bar">
                <ShareBar share={share} max={slots} name={name} />
            </td>
            <td class="num">
                {share.usedSlots} of {share.entitledSlots}
                <span class="hidden"> entitled</span>
            </td>
            <td class="num">{share.waitingJobs || "–"}</td>
            <td class="muted shares-limits">{limitText(share)}</td>
        </tr>
    );
}

function isIdle(share: Share): boolean {
    return !share.usedSlots && !share.wantedSlots && !share.waitingJobs;
}

/** The teams that use or want slots of a pool. `isBrief`: without their settings. */
export function ShareTable(props: {
    shares: readonly Share[];
    slots: number;
    showsUsers?: boolean;
    isBrief?: boolean;
}) {
    const lines = props.shares.filter(
        (share) => (props.showsUsers || !share.userId) && !isIdle(share),
    );
    if (lines.length === 0) return null;
    return (
        <table class={`shares${props.isBrief ? " shares-brief" : ""}`}>
            <caption class="hidden">Fair shares of teams</caption>
            <thead>
                <tr>
                    <th scope="col">Team</th>
                    <th scope="col">Share of {count(props.slots, "slot")}</th>
                    <th scope="col">Used</th>
                    <th scope="col">Waiting</th>
                    <th scope="col" class="shares-limits">
                        Settings
                    </th>
                </tr>
            </thead>
            <tbody>
                {lines.map((share) => (
                    <ShareRow
                        key={`${share.workspaceId} ${share.userId ?? ""}`}
                        share={share}
                        slots={props.slots}
                    />
                ))}
            </tbody>
        </table>
    );
}

/** The legend of the bars. */
export function ShareLegend() {
    return (
        <p class="share-legend muted" aria-hidden="true">
            <span class="share-used" /> used
            <span class="share-borrowed" /> borrowed
            <span class="share-entitled" /> entitled
        </p>
    );
}
