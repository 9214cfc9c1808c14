// Teams, which are workspaces: their parts of the slots, and the roles of their members.

import { useComputed, useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { count, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin, mayManage } from "../../lib/session";
import type { Member, Role, Share, User, Workspace } from "../../lib/types";
import { param, text } from "../../lib/url";
import {
    ActionBar,
    Bar,
    Button,
    Field,
    FormDialog,
    Loaded,
    Search,
    Select,
    TextInput,
} from "../../parts";
import type { Column } from "../../parts/table";
import { find, ListTable, menuColumn, NewButton } from "./list";

const chosen = param("team", text());
const roles: readonly Role[] = ["none", "viewer", "editor", "admin"];

const others: Record<Role, string> = {
    none: "nobody else sees it",
    viewer: "everybody else may look",
    editor: "everybody else may submit, too",
    admin: "everybody else may manage it, too",
};

interface Teams {
    teams: Workspace[];
    shares: Share[];
}

/** Of all pools together. */
function slotsOf(team: Workspace, shares: readonly Share[]) {
    const own = shares.filter((share) => share.workspaceId === team.id && !share.userId);
    const sum = (of: (share: Share) => number) => own.reduce((total, share) => total + of(share), 0);
    return { used: sum((share) => share.usedSlots), entitled: sum((share) => share.entitledSlots) };
}

/** "" when there is no such limit. */
const limitText = (slots: number | undefined) => (slots ? number(slots) : "–");

function columnsFor(shares: readonly Share[], actions: (team: Workspace) => Action[]): Column<Workspace>[] {
    const numbers = (id: string, title: string, of: (team: Workspace) => number | undefined, help: string) => ({
        id,
        title,
        help,
        width: 100,
        end: true,
        sort: id,
        value: of,
        cell: (team: Workspace) => limitText(of(team)),
    });
    return [
        {
            id: "name",
            title: "Team",
            width: 180,
            sort: "name",
            value: (team) => team.name,
            cell: (team) => (
                <>
                    <a href={`/admin?tab=teams&team=${team.id}`}>{team.name}</a>
                    {team.archived && <span class="muted"> (archived)</span>}
                </>
            ),
        },
        {
            id: "use",
            title: "Slots in use",
            width: 170,
            help: "Of how many it is entitled to now",
            cell: (team) => {
                const { used, entitled } = slotsOf(team, shares);
                if (used === 0 && entitled === 0) return <span class="muted">none wanted</span>;
                return (
                    <span class="num">
                        <Bar value={used} of={entitled} label={`${used} of ${entitled} slots`} />{" "}
                        {number(used)} of {number(Math.round(10 * entitled) / 10)}
                    </span>
                );
            },
        },
        numbers("weight", "Weight", (team) => team.weight, "Its part of the slots when all want some"),
        numbers("guaranteed", "Guaranteed", (team) => team.guaranteedSlots, "Slots it has at any time"),
        numbers("most", "At most", (team) => team.maxSlots, "Slots it never has more of"),
        {
            id: "role",
            title: "Others are",
            width: 110,
            help: "The role of who is not a member",
            cell: (team) => team.defaultRole,
        },
        numbers("members", "Members", (team) => team.numMembers, "Who has a role of their own"),
        numbers("experiments", "Experiments", (team) => team.numExperiments, "In all its projects"),
        menuColumn((team) => team.name, actions),
    ];
}

/** 0 stands for none. */
const slots = (given: string) => Math.max(0, Math.trunc(Number(given) || 0));

function TeamForm({ team, onClose }: { team: Workspace | undefined; onClose: () => void }) {
    const name = useSignal(team?.name ?? "");
    const role = useSignal<string>(team?.defaultRole ?? "editor");
    const weight = useSignal(String(team?.weight ?? 1));
    const least = useSignal(String(team?.guaranteedSlots ?? 0));
    const most = useSignal(String(team?.maxSlots ?? 0));
    const submit = async () => {
        const parts = isAdmin()
            ? { weight: Number(weight.value), guaranteedSlots: slots(least.value), maxSlots: slots(most.value) }
            : {};
        const named = name.value.trim() === team?.name ? {} : { name: name.value.trim() };
        const body = { ...named, defaultRole: role.value, ...parts };
        return team ? send("PATCH", `/workspaces/${team.id}`, body) : send("POST", "/workspaces", body);
    };
    return (
        <FormDialog
            title={team ? `Edit ${team.name}` : "New team"}
            verb={team ? "Save" : "Make it"}
            done={team ? "Saved" : "The team is there"}
            onClose={onClose}
            submit={submit}
        >
            <Field label="Name">
                <TextInput at={name} required />
            </Field>
            <Field label="Who is not a member is">
                <Select label="Role" quiet at={role} options={roles} />
            </Field>
            {isAdmin() && (
                <>
                    <Field label="Weight" help="2 gets twice the slots of 1 when both want more">
                        <TextInput at={weight} type="number" />
                    </Field>
                    <Field label="Guaranteed slots" help="0: none">
                        <TextInput at={least} type="number" />
                    </Field>
                    <Field label="At most so many slots" help="0: as many as there are">
                        <TextInput at={most} type="number" />
                    </Field>
                </>
            )}
        </FormDialog>
    );
}

function MemberForm(props: {
    team: Workspace;
    member: Member | undefined;
    others: readonly Member[];
    onClose: () => void;
}) {
    const { team, member } = props;
    const user = useSignal(member ? String(member.userId) : "");
    const role = useSignal<string>(member?.role || "editor");
    const weight = useSignal(String(member?.weight ?? 1));
    const most = useSignal(String(member?.maxSlots ?? 0));
    const users = useLoad((abort) => get<{ users: User[] }>("/users", { active: true }, abort));
    const known = new Set(props.others.map((one) => one.userId));
    const free = (users.data.value?.users ?? []).filter((one) => !known.has(one.id));
    const submit = async () => {
        if (!user.value) throw new Error("Choose the user who is to be a member.");
        const limit = isAdmin() ? { maxSlots: slots(most.value) } : {};
        const body = { role: role.value, weight: Number(weight.value), ...limit };
        await send("PUT", `/workspaces/${team.id}/members/${user.value}`, body);
    };
    return (
        <FormDialog
            title={member ? `${member.username} in ${team.name}` : `New member of ${team.name}`}
            verb={member ? "Save" : "Add"}
            done="Saved"
            onClose={props.onClose}
            submit={submit}
        >
            {!member && (
                <Field label="User">
                    <Select
                        label="User"
                        quiet
                        at={user}
                        options={[
                            { value: "", title: "choose" },
                            ...free.map((one) => ({ value: String(one.id), title: one.username })),
                        ]}
                    />
                </Field>
            )}
            <Field label="Role" help="Viewers see, editors submit, admins manage the team">
                <Select label="Role" quiet at={role} options={roles} />
            </Field>
            <Field label="Weight" help="Their part of the team's slots">
                <TextInput at={weight} type="number" />
            </Field>
            {isAdmin() && (
                <Field label="At most so many slots" help="0: as many as the team may have">
                    <TextInput at={most} type="number" />
                </Field>
            )}
        </FormDialog>
    );
}

function memberColumns(actions: (member: Member) => Action[]): Column<Member>[] {
    return [
        { id: "user", title: "Member", width: 180, cell: (member) => member.username },
        { id: "role", title: "Role", width: 120, cell: (member) => member.role || "by default" },
        { id: "weight", title: "Weight", width: 90, end: true, cell: (member) => member.weight },
        {
            id: "most",
            title: "At most",
            width: 90,
            end: true,
            cell: (member) => limitText(member.maxSlots),
        },
        menuColumn((member) => member.username, actions),
    ];
}

function Team({ team, actions }: { team: Workspace; actions: readonly Action[] }) {
    const editing = useSignal<Member | "new" | null>(null);
    const refused = mayManage(team.id);
    const path = `/workspaces/${team.id}/members`;
    const load = useLoad((abort) => get<{ members: Member[] }>(path, {}, abort), {
        topics: ["workspaces"],
    });
    const members = useComputed(() => load.data.value?.members ?? []);
    const memberActions = (member: Member): Action[] => [
        { name: "Edit", refused, run: () => (editing.value = member) },
        {
            name: `Remove ${member.username}`,
            refused,
            danger: `${member.username} then has the team's default role, ${team.defaultRole}.`,
            call: { method: "DELETE", path: `${path}/${member.userId}` },
            run: load.reload,
        },
    ];
    const close = () => {
        editing.value = null;
        load.reload();
    };
    const offered = actions.filter((action) => !action.refused);
    return (
        <section class="card stack" aria-label={`Team ${team.name}`}>
            <div class="spread">
                <h2>{team.name}</h2>
                <div class="line">
                    {!refused && (
                        <Button icon="plus" onClick={() => (editing.value = "new")}>
                            Add a member
                        </Button>
                    )}
                    <ActionBar actions={offered} />
                </div>
            </div>
            <p class="muted">
                {count(members.value.length, "member")}; {others[team.defaultRole ?? "editor"]}.
            </p>
            <ListTable
                label={`Members of ${team.name}`}
                of={load}
                pick={(data) => data.members}
                columns={memberColumns(memberActions)}
                name={(member) => member.username}
                id={(member) => String(member.userId)}
                height={400}
            />
            {editing.value && (
                <MemberForm
                    team={team}
                    member={editing.value === "new" ? undefined : editing.value}
                    others={members.value}
                    onClose={close}
                />
            )}
        </section>
    );
}

export function TeamsTab() {
    const editing = useSignal<Workspace | "new" | null>(null);
    const load = useLoad(
        async (abort): Promise<Teams> => {
            const [{ workspaces }, { shares }] = await Promise.all([
                get<{ workspaces: Workspace[] }>("/workspaces", {}, abort),
                get<{ shares: Share[] }>("/shares", {}, abort),
            ]);
            return { teams: workspaces, shares };
        },
        { topics: ["workspaces", "queue"], every: 3 },
    );
    const actions = (team: Workspace): Action[] => {
        const refused = mayManage(team.id);
        const first = team.immutable ? "The first team stays as it is" : undefined;
        const verb = team.archived ? "unarchive" : "archive";
        return [
            { name: "Edit", refused, run: () => (editing.value = team) },
            {
                name: team.archived ? "Unarchive" : "Archive",
                refused: refused ?? first,
                call: { method: "POST", path: `/workspaces/${team.id}/${verb}`, muster: ["team", verb, team.name] },
                run: load.reload,
            },
            {
                name: `Delete ${team.name}`,
                refused: refused ?? first,
                danger: "Its projects go with it. One that holds experiments, models or templates is not deleted.",
                call: { method: "DELETE", path: `/workspaces/${team.id}`, muster: ["team", "delete", team.name] },
                run: load.reload,
            },
        ];
    };
    const close = () => {
        editing.value = null;
        load.reload();
    };
    const shares = load.data.value?.shares ?? [];
    const shown = load.data.value?.teams.find((team) => String(team.id) === chosen.value);
    return (
        <>
            <div class="spread">
                <Search at={find} label="Teams by name" />
                <NewButton name="New team" run={() => (editing.value = "new")} />
            </div>
            <ListTable
                label="Teams"
                of={load}
                pick={({ teams }) => teams}
                columns={columnsFor(shares, actions)}
                name={(team) => team.name}
                id={(team) => String(team.id)}
                words={(team) => team.name}
                href={(team) => `/admin?tab=teams&team=${team.id}`}
                rowClass={(team) => (team === shown ? "table-chosen" : undefined)}
                height={420}
            />
            <Loaded of={load}>
                {() => shown && <Team key={shown.id} team={shown} actions={actions(shown)} />}
            </Loaded>
            {editing.value && (
                <TeamForm team={editing.value === "new" ? undefined : editing.value} onClose={close} />
            )}
        </>
    );
}
