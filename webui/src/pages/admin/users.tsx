// The user accounts.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { isAdmin, user as me } from "../../lib/session";
import type { User } from "../../lib/types";
import { Ago, Field, FormDialog, Search, StateBadge, Switch, TextInput } from "../../parts";
import type { Column } from "../../parts/table/table";
import { searchText, ListTable, menuColumn, NewButton } from "./list_table";

type OpenDialog = { what: "create" } | { what: "edit" | "password"; user: User };

function useText(initial = "") {
    return useSignal(initial);
}

function UserForm({ user, onClose }: { user: User | undefined; onClose: () => void }) {
    const name = useText(user?.username);
    const displayName = useText(user?.displayName);
    const password = useText();
    const admin = useSignal(user?.admin ?? false);
    const submit = async () => {
        const rights = isAdmin() ? { admin: admin.value } : {};
        const body = { username: name.value.trim(), displayName: displayName.value.trim(), ...rights };
        if (user) return send("PATCH", `/users/${user.id}`, body);
        const newUser = { user: { ...body, active: true }, password: password.value, isHashed: false };
        return send("POST", "/users", newUser);
    };
    return (
        <FormDialog
            title={user ? `Edit ${user.username}` : "New user"}
            submitLabel={user ? "Save" : "Create"}
            doneText={user ? "Saved" : "User created"}
            onClose={onClose}
            submit={submit}
        >
            <Field label="Name" help="The name to sign in with">
                <TextInput bind={name} required autocomplete="off" />
            </Field>
            <Field label="Display name">
                <TextInput bind={displayName} autocomplete="off" />
            </Field>
            {!user && (
                <Field label="Password">
                    <TextInput bind={password} type="password" required autocomplete="new-password" />
                </Field>
            )}
            {isAdmin() && <Switch label="Cluster administrator" bind={admin} />}
        </FormDialog>
    );
}

function PasswordForm({ user, onClose }: { user: User; onClose: () => void }) {
    const password = useText();
    const repeated = useText();
    const submit = async () => {
        if (password.value !== repeated.value) throw new Error("The passwords do not match. Type them again.");
        await send("PATCH", `/users/${user.id}`, { password: password.value, isHashed: false });
    };
    return (
        <FormDialog
            title={`Password of ${user.username}`}
            submitLabel="Set password"
            doneText="Password set"
            onClose={onClose}
            submit={submit}
        >
            <Field label="New password">
                <TextInput bind={password} type="password" required autocomplete="new-password" />
            </Field>
            <Field label="Repeat password">
                <TextInput bind={repeated} type="password" required autocomplete="new-password" />
            </Field>
        </FormDialog>
    );
}

function userColumns(actions: (user: User) => Action[]): Column<User>[] {
    return [
        {
            id: "name",
            title: "Name",
            width: 170,
            sort: "name",
            value: (user) => user.username,
            cell: (user) => (
                <>
                    {user.username}
                    {user.id === me.value?.id && <span class="muted"> (you)</span>}
                </>
            ),
        },
        {
            id: "shown",
            title: "Display name",
            width: 200,
            sort: "shown",
            value: (user) => user.displayName,
            cell: (user) => user.displayName,
        },
        {
            id: "role",
            title: "Role",
            width: 130,
            sort: "role",
            value: (user) => (user.admin ? "Administrator" : "User"),
            cell: (user) => (user.admin ? "Administrator" : "User"),
        },
        {
            id: "state",
            title: "State",
            width: 120,
            sort: "state",
            value: (user) => (user.active ? 0 : 1),
            cell: (user) => <StateBadge state={user.active ? "ENABLED" : "DISABLED"} />,
        },
        {
            id: "seen",
            title: "Last sign-in",
            width: 130,
            sort: "seen",
            value: (user) => user.lastAuthAt,
            cell: (user) => <Ago at={user.lastAuthAt} />,
        },
        menuColumn((user) => user.username, actions),
    ];
}

export function Users() {
    const open = useSignal<OpenDialog | null>(null);
    const load = useLoad((abort) => get<{ users: User[] }>("/users", {}, abort), {
        topics: ["audit"],
        auditObjects: ["users", "auth"],
    });
    const actions = (user: User): Action[] => {
        const isOwn = user.id === me.value?.id;
        const refused = isAdmin() ? undefined : "This requires an administrator";
        const verb = user.active ? "deactivate" : "activate";
        return [
            { name: "Edit", disabledReason: isOwn ? undefined : refused, run: () => (open.value = { what: "edit", user }) },
            {
                name: "Set password",
                disabledReason: isOwn ? undefined : refused,
                run: () => (open.value = { what: "password", user }),
            },
            {
                name: user.active ? "Deactivate" : "Activate",
                disabledReason: isOwn ? "You cannot deactivate your own account" : refused,
                danger: user.active && `${user.username} can no longer sign in. Their experiments stay.`,
                call: {
                    method: "PATCH",
                    path: `/users/${user.id}`,
                    body: { active: !user.active },
                    muster: ["user", verb, user.username],
                },
                run: load.reload,
            },
        ];
    };
    const close = () => {
        open.value = null;
        load.reload();
    };
    return (
        <>
            <div class="spread">
                <Search bind={searchText} label="Find users by name" />
                {isAdmin() && (
                    <NewButton name="New user" run={() => (open.value = { what: "create" })} />
                )}
            </div>
            <ListTable
                label="Users"
                load={load}
                pick={({ users }) => users}
                columns={userColumns(actions)}
                name={(user) => user.username}
                id={(user) => String(user.id)}
                searchable={(user) => `${user.username} ${user.displayName ?? ""}`}
            />
            {open.value?.what === "create" && <UserForm user={undefined} onClose={close} />}
            {open.value?.what === "edit" && <UserForm user={open.value.user} onClose={close} />}
            {open.value?.what === "password" && <PasswordForm user={open.value.user} onClose={close} />}
        </>
    );
}
