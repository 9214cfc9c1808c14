// Teams, which are workspaces: their quotas and shares, and the roles of their members.

import { useComputed, useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { count, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin, manageDeniedReason } from "../../lib/session";
import type { Member, Role, Share, User, Workspace } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
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
import type { Column } from "../../parts/table/table";
import { searchText, ListTable, menuColumn, NewButton } from "./list_table";

const chosenTeam = queryParam("team", text());
const roles: readonly Role[] = ["none", "viewer", "editor", "admin"];

const defaultRoleTexts: Record<Role, string> = {
    none: "other users cannot see the team",
    viewer: "all other users can view",
    editor: "all other users can view and submit",
    admin: "all other users can view, submit and manage the team",
};

interface Teams {
    teams: Workspace[];
    shares: Share[];
}

/** The sum over all pools. */
function teamSlots(team: Workspace, shares: readonly Share[]) {
    const own = shares.filter((share) => share.workspaceId === team.id && !share.userId);
    const sum = (of: (share: Share) => number) => own.reduce((total, share) => total + of(share), 0);
    return { used: sum((share) => share.usedSlots), entitled: sum((share) => share.entitledSlots) };
}

/** A limit, or a dash if there is none. */
const limitText = (slots: number | undefined) => (slots ? number(slots) : "–");

function teamColumns(shares: readonly Share[], actions: (team: Workspace) => Action[]): Column<Workspace>[] {
    const numbers = (id: string, title: string, of: (team: Workspace) => number | undefined, help: string) => ({
        id,
        title,
        help,
        width: 100,
        alignEnd: true,
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
            help: "Used slots of the slots that the team is entitled to now",
            cell: (team) => {
                const { used, entitled } = teamSlots(team, shares);
                if (used === 0 && entitled === 0) return <span class="muted">none</span>;
                return (
                    <span class="num">
                        <Bar value={used} max={entitled} label={`${used} of ${entitled} slots`} />{" "}
                        {number(used)} of {number(Math.round(10 * entitled) / 10)}
                    </span>
                );
            },
        },
        numbers("weight", "Weight", (team) => team.weight, "The share of slots relative to other teams"),
        numbers("guaranteed", "Guaranteed", (team) => team.guaranteedSlots, "Slots that the team gets at any time"),
        numbers("most", "Maximum", (team) => team.maxSlots, "The most slots that the team can use"),
        {
            id: "role",
            title: "Default role",
            width: 110,
            help: "The role of users who are not members",
            cell: (team) => team.defaultRole,
        },
        numbers("members", "Members", (team) => team.numMembers, "Users with a role of their own"),
        numbers("experiments", "Experiments", (team) => team.numExperiments, "In all its projects"),
        menuColumn((team) => team.name, actions),
    ];
}

/** 0 means none. */
const parseSlots = (given: string) => Math.max(0, Math.trunc(Number(given) || 0));

function TeamForm({ team, onClose }: { team: Workspace | undefined; onClose: () => void }) {
    const name = useSignal(team?.name ?? "");
    const role = useSignal<string>(team?.defaultRole ?? "editor");
    const weight = useSignal(String(team?.weight ?? 1));
    const guaranteed = useSignal(String(team?.guaranteedSlots ?? 0));
    const maximum = useSignal(String(team?.maxSlots ?? 0));
    const submit = async () => {
        const quota = isAdmin()
            ? {
                  weight: Number(weight.value),
                  guaranteedSlots: parseSlots(guaranteed.value),
                  maxSlots: parseSlots(maximum.value),
              }
            : {};
        const rename = name.value.trim() === team?.name ? {} : { name: name.value.trim() };
        const body = { ...rename, defaultRole: role.value, ...quota };
        return team ? send("PATCH", `/workspaces/${team.id}`, body) : send("POST", "/workspaces", body);
    };
    return (
        <FormDialog
            title={team ? `Edit ${team.name}` : "New team"}
            submitLabel={team ? "Save" : "Create"}
            doneText={team ? "Saved" : "Team created"}
            onClose={onClose}
            submit={submit}
        >
            <Field label="Name">
                <TextInput bind={name} required />
            </Field>
            <Field label="Default role">
                <Select label="Role" hidesLabel bind={role} options={roles} />
            </Field>
            {isAdmin() && (
                <>
                    <Field label="Weight" help="Weight 2 gets twice the slots of weight 1 when both want more">
                        <TextInput bind={weight} type="number" />
                    </Field>
                    <Field label="Guaranteed slots" help="0 means none">
                        <TextInput bind={guaranteed} type="number" />
                    </Field>
                    <Field label="Maximum slots" help="0 means no limit">
                        <TextInput bind={maximum} type="number" />
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
    const maximum = useSignal(String(member?.maxSlots ?? 0));
    const users = useLoad((abort) => get<{ users: User[] }>("/users", { active: true }, abort));
    const memberIds = new Set(props.others.map((one) => one.userId));
    const candidates = (users.data.value?.users ?? []).filter((one) => !memberIds.has(one.id));
    const submit = async () => {
        if (!user.value) throw new Error("Choose a user.");
        const limit = isAdmin() ? { maxSlots: parseSlots(maximum.value) } : {};
        const body = { role: role.value, weight: Number(weight.value), ...limit };
        await send("PUT", `/workspaces/${team.id}/members/${user.value}`, body);
    };
    return (
        <FormDialog
            title={member ? `${member.username} in ${team.name}` : `New member of ${team.name}`}
            submitLabel={member ? "Save" : "Add"}
            doneText="Saved"
            onClose={props.onClose}
            submit={submit}
        >
            {!member && (
                <Field label="User">
                    <Select
                        label="User"
                        hidesLabel
                        bind={user}
                        options={[
                            { value: "", title: "Choose a user" },
                            ...candidates.map((one) => ({ value: String(one.id), title: one.username })),
                        ]}
                    />
                </Field>
            )}
            <Field label="Role" help="Viewers can view, editors can submit, admins can manage the team">
                <Select label="Role" hidesLabel bind={role} options={roles} />
            </Field>
            <Field label="Weight" help="The share of the team's slots relative to other members">
                <TextInput bind={weight} type="number" />
            </Field>
            {isAdmin() && (
                <Field label="Maximum slots" help="0 means the limit of the team">
                    <TextInput bind={maximum} type="number" />
                </Field>
            )}
        </FormDialog>
    );
}

function memberColumns(actions: (member: Member) => Action[]): Column<Member>[] {
    return [
        { id: "user", title: "Member", width: 180, cell: (member) => member.username },
        { id: "role", title: "Role", width: 120, cell: (member) => member.role || "default" },
        { id: "weight", title: "Weight", width: 90, alignEnd: true, cell: (member) => member.weight },
        {
            id: "most",
            title: "Maximum",
            width: 90,
            alignEnd: true,
            cell: (member) => limitText(member.maxSlots),
        },
        menuColumn((member) => member.username, actions),
    ];
}

function Team({ team, actions }: { team: Workspace; actions: readonly Action[] }) {
    const editing = useSignal<Member | "new" | null>(null);
    const refused = manageDeniedReason(team.id);
    const path = `/workspaces/${team.id}/members`;
    const load = useLoad((abort) => get<{ members: Member[] }>(path, {}, abort), {
        topics: ["workspaces"],
    });
    const members = useComputed(() => load.data.value?.members ?? []);
    const memberActions = (member: Member): Action[] => [
        { name: "Edit", disabledReason: refused, run: () => (editing.value = member) },
        {
            name: `Remove ${member.username}`,
            disabledReason: refused,
            danger: `${member.username} gets the team's default role, ${team.defaultRole}.`,
            call: { method: "DELETE", path: `${path}/${member.userId}` },
            run: load.reload,
        },
    ];
    const close = () => {
        editing.value = null;
        load.reload();
    };
    const offered = actions.filter((action) => !action.disabledReason);
    return (
        <section class="card stack" aria-label={`Team ${team.name}`}>
            <div class="spread">
                <h2>{team.name}</h2>
                <div class="line">
                    {!refused && (
                        <Button icon="plus" onClick={() => (editing.value = "new")}>
                            Add member
                        </Button>
                    )}
                    <ActionBar actions={offered} />
                </div>
            </div>
            <p class="muted">
                {count(members.value.length, "member")}; {defaultRoleTexts[team.defaultRole ?? "editor"]}.
            </p>
            <ListTable
                label={`Members of ${team.name}`}
                load={load}
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
        { topics: ["workspaces", "queue"], minIntervalS: 3 },
    );
    const actions = (team: Workspace): Action[] => {
        const refused = manageDeniedReason(team.id);
        const first = team.immutable ? "The default team cannot be archived or deleted" : undefined;
        const verb = team.archived ? "unarchive" : "archive";
        return [
            { name: "Edit", disabledReason: refused, run: () => (editing.value = team) },
            {
                name: team.archived ? "Unarchive" : "Archive",
                disabledReason: refused ?? first,
                call: { method: "POST", path: `/workspaces/${team.id}/${verb}`, muster: ["team", verb, team.name] },
                run: load.reload,
            },
            {
                name: `Delete ${team.name}`,
                disabledReason: refused ?? first,
                danger: "Its projects, experiments, checkpoints and templates are deleted as well. A team with models cannot be deleted.",
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
    const shown = load.data.value?.teams.find((team) => String(team.id) === chosenTeam.value);
    return (
        <>
            <div class="spread">
                <Search bind={searchText} label="Find teams by name" />
                <NewButton name="New team" run={() => (editing.value = "new")} />
            </div>
            <ListTable
                label="Teams"
                load={load}
                pick={({ teams }) => teams}
                columns={teamColumns(shares, actions)}
                name={(team) => team.name}
                id={(team) => String(team.id)}
                searchable={(team) => team.name}
                href={(team) => `/admin?tab=teams&team=${team.id}`}
                rowClass={(team) => (team === shown ? "table-selected" : undefined)}
                height={420}
            />
            <Loaded load={load}>
                {() => shown && <Team key={shown.id} team={shown} actions={actions(shown)} />}
            </Loaded>
            {editing.value && (
                <TeamForm team={editing.value === "new" ? undefined : editing.value} onClose={close} />
            )}
        </>
    );
}
