// Access tokens for programs. The text of a token is shown once, after it is created.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { millis, now } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin, user as me } from "../../lib/session";
import type { Token, User } from "../../lib/types";
import { flag, queryParam } from "../../lib/url";
import { Ago, Button, Copy, Dialog, Field, FormDialog, Search, Select, Switch, TextInput } from "../../parts";
import type { Column } from "../../parts/table/table";
import { searchText, ListTable, menuColumn, NewButton } from "./list_table";

const showsEnded = queryParam("ended", flag());
const showsSessions = queryParam("sessions", flag());

const lifetimes = [
    { value: "168h", title: "7 days" },
    { value: "720h", title: "30 days" },
    { value: "2160h", title: "90 days" },
    { value: "8760h", title: "1 year" },
    { value: "-1", title: "until revoked" },
];

interface Tokens {
    tokens: Token[];
    users: User[];
}

function tokenState(token: Token): string {
    if (token.revoked) return "Revoked";
    return token.expiry && millis(token.expiry) < now.peek() ? "Expired" : "Active";
}

function TokenForm(props: { users: readonly User[]; onCreated: (token: string) => void; onClose: () => void }) {
    const description = useSignal("");
    const lifespan = useSignal("720h");
    const owner = useSignal(String(me.peek()?.id ?? ""));
    const submit = async () => {
        const body = { description: description.value.trim(), lifespan: lifespan.value, userId: Number(owner.value) };
        props.onCreated((await send<{ token: string }>("POST", "/tokens", body)).token);
    };
    const active = props.users.filter((user) => user.active);
    return (
        <FormDialog title="New token" submitLabel="Create" onClose={props.onClose} submit={submit}>
            <Field label="Description">
                <TextInput bind={description} required />
            </Field>
            <Field label="Valid for">
                <Select label="Lifetime" hidesLabel bind={lifespan} options={lifetimes} />
            </Field>
            {isAdmin() && (
                <Field label="Owner">
                    <Select
                        label="User"
                        hidesLabel
                        bind={owner}
                        options={active.map((user) => ({ value: String(user.id), title: user.username }))}
                    />
                </Field>
            )}
        </FormDialog>
    );
}

function NewTokenDialog({ token, onClose }: { token: string; onClose: () => void }) {
    return (
        <Dialog
            title="New token"
            onClose={onClose}
            actions={
                <Button kind="main" onClick={onClose}>
                    Done
                </Button>
            }
        >
            <p>Copy the token now. It will not be shown again.</p>
            <div class="line admin-token">
                <code class="grow">{token}</code>
                <Copy text={token} label="Copy the token" />
            </div>
            <p class="muted">
                To use it on the command line: <code>export MUSTER_TOKEN=…</code>
            </p>
        </Dialog>
    );
}

function tokenColumns(names: ReadonlyMap<number, string>, actions: (token: Token) => Action[]): Column<Token>[] {
    return [
        {
            id: "about",
            title: "Description",
            width: 260,
            sort: "about",
            value: (token) => token.description,
            cell: (token) =>
                token.description ||
                (token.tokenType === "TOKEN_TYPE_USER_SESSION" ? "web session" : <span class="muted">–</span>),
        },
        {
            id: "user",
            title: "User",
            width: 140,
            sort: "user",
            value: (token) => names.get(token.userId),
            cell: (token) => names.get(token.userId) ?? token.userId,
        },
        { id: "state", title: "State", width: 100, sort: "state", value: tokenState, cell: tokenState },
        {
            id: "made",
            title: "Created",
            width: 110,
            sort: "made",
            value: (token) => token.createdAt,
            cell: (token) => <Ago at={token.createdAt} />,
        },
        {
            id: "expiry",
            title: "Expires",
            width: 120,
            sort: "expiry",
            value: (token) => token.expiry,
            cell: (token) => (token.expiry ? <Ago at={token.expiry} /> : "never"),
        },
        menuColumn((token) => token.description || `token ${token.id}`, actions),
    ];
}

export function TokensTab() {
    const isCreating = useSignal(false);
    const newToken = useSignal("");
    const load = useLoad(async (abort): Promise<Tokens> => {
        const query = { showInactive: showsEnded.value, sessions: showsSessions.value };
        const [{ tokenInfo }, { users }] = await Promise.all([
            get<{ tokenInfo: Token[] }>("/tokens", query, abort),
            get<{ users: User[] }>("/users", {}, abort),
        ]);
        return { tokens: tokenInfo, users };
    }, { topics: ["audit"], auditObjects: ["tokens", "users", "auth"] });
    const names = new Map((load.data.value?.users ?? []).map((user) => [user.id, user.username]));
    const actions = (token: Token): Action[] => [
        {
            name: "Revoke",
            disabledReason: tokenState(token) === "Active" ? undefined : "The token is no longer active",
            danger: "Programs that use the token lose access at once.",
            call: {
                method: "PATCH",
                path: `/tokens/${token.id}`,
                body: { setRevoked: true },
                muster: ["token", "revoke", token.id],
            },
            run: load.reload,
        },
    ];
    return (
        <>
            <div class="spread">
                <div class="line">
                    <Search bind={searchText} label="Find tokens by description or user" />
                    <Switch label="Show inactive" bind={showsEnded} />
                    <Switch label="Show web sessions" bind={showsSessions} />
                </div>
                <NewButton name="New token" run={() => (isCreating.value = true)} />
            </div>
            <ListTable
                label="Tokens"
                load={load}
                pick={({ tokens }) => tokens}
                columns={tokenColumns(names, actions)}
                name={(token) => token.description || `token ${token.id}`}
                searchable={(token) => `${token.description ?? ""} ${names.get(token.userId) ?? ""}`}
                id={(token) => String(token.id)}
            />
            {isCreating.value && (
                <TokenForm
                    users={load.data.value?.users ?? []}
                    onCreated={(token) => (newToken.value = token)}
                    onClose={() => {
                        isCreating.value = false;
                        load.reload();
                    }}
                />
            )}
            {newToken.value && <NewTokenDialog token={newToken.value} onClose={() => (newToken.value = "")} />}
        </>
    );
}
