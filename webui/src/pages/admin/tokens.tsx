// Access tokens of programs. The text of one is shown when it is made, and never again.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { millis, now } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin, user as me } from "../../lib/session";
import type { Token, User } from "../../lib/types";
import { flag, param } from "../../lib/url";
import { Ago, Button, Copy, Dialog, Field, FormDialog, Search, Select, Switch, TextInput } from "../../parts";
import type { Column } from "../../parts/table";
import { find, ListTable, menuColumn, NewButton } from "./list";

const ended = param("ended", flag());
const sessions = param("sessions", flag());

const lives = [
    { value: "168h", title: "7 days" },
    { value: "720h", title: "30 days" },
    { value: "2160h", title: "90 days" },
    { value: "8760h", title: "a year" },
    { value: "-1", title: "until it is revoked" },
];

interface Tokens {
    tokens: Token[];
    users: User[];
}

function stateOf(token: Token): string {
    if (token.revoked) return "Revoked";
    return token.expiry && millis(token.expiry) < now.peek() ? "Expired" : "Works";
}

function NewToken(props: { users: readonly User[]; onMade: (token: string) => void; onClose: () => void }) {
    const about = useSignal("");
    const life = useSignal("720h");
    const owner = useSignal(String(me.peek()?.id ?? ""));
    const submit = async () => {
        const body = { description: about.value.trim(), lifespan: life.value, userId: Number(owner.value) };
        props.onMade((await send<{ token: string }>("POST", "/tokens", body)).token);
    };
    const active = props.users.filter((user) => user.active);
    return (
        <FormDialog title="New token" verb="Make it" onClose={props.onClose} submit={submit}>
            <Field label="What it is for">
                <TextInput at={about} required />
            </Field>
            <Field label="It works for">
                <Select label="Life" quiet at={life} options={lives} />
            </Field>
            {isAdmin() && (
                <Field label="In the name of">
                    <Select
                        label="User"
                        quiet
                        at={owner}
                        options={active.map((user) => ({ value: String(user.id), title: user.username }))}
                    />
                </Field>
            )}
        </FormDialog>
    );
}

function Made({ token, onClose }: { token: string; onClose: () => void }) {
    return (
        <Dialog
            title="The new token"
            onClose={onClose}
            actions={
                <Button kind="main" onClick={onClose}>
                    I have it
                </Button>
            }
        >
            <p>Take it now: it is not shown again.</p>
            <div class="line admin-token">
                <code class="grow">{token}</code>
                <Copy text={token} label="Copy the token" />
            </div>
            <p class="muted">
                <code>export MUSTER_TOKEN=…</code> is how the command line takes it.
            </p>
        </Dialog>
    );
}

function columnsFor(names: ReadonlyMap<number, string>, actions: (token: Token) => Action[]): Column<Token>[] {
    return [
        {
            id: "about",
            title: "What it is for",
            width: 260,
            sort: "about",
            value: (token) => token.description,
            cell: (token) =>
                token.description ||
                (token.tokenType === "TOKEN_TYPE_USER_SESSION" ? "a sign-in" : <span class="muted">–</span>),
        },
        {
            id: "user",
            title: "User",
            width: 140,
            sort: "user",
            value: (token) => names.get(token.userId),
            cell: (token) => names.get(token.userId) ?? token.userId,
        },
        { id: "state", title: "State", width: 100, sort: "state", value: stateOf, cell: stateOf },
        {
            id: "made",
            title: "Made",
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
    const making = useSignal(false);
    const made = useSignal("");
    const load = useLoad(async (abort): Promise<Tokens> => {
        const query = { showInactive: ended.value, sessions: sessions.value };
        const [{ tokenInfo }, { users }] = await Promise.all([
            get<{ tokenInfo: Token[] }>("/tokens", query, abort),
            get<{ users: User[] }>("/users", {}, abort),
        ]);
        return { tokens: tokenInfo, users };
    }, { topics: ["audit"], of: ["tokens", "users", "auth"] });
    const names = new Map((load.data.value?.users ?? []).map((user) => [user.id, user.username]));
    const actions = (token: Token): Action[] => [
        {
            name: "Revoke",
            refused: stateOf(token) === "Works" ? undefined : "It works no more",
            danger: "Programs that use it are refused at once.",
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
                    <Search at={find} label="Tokens by use or user" />
                    <Switch label="Also ended ones" at={ended} />
                    <Switch label="Also sign-ins" at={sessions} />
                </div>
                <NewButton name="New token" run={() => (making.value = true)} />
            </div>
            <ListTable
                label="Tokens"
                of={load}
                pick={({ tokens }) => tokens}
                columns={columnsFor(names, actions)}
                name={(token) => token.description || `token ${token.id}`}
                words={(token) => `${token.description ?? ""} ${names.get(token.userId) ?? ""}`}
                id={(token) => String(token.id)}
            />
            {making.value && (
                <NewToken
                    users={load.data.value?.users ?? []}
                    onMade={(token) => (made.value = token)}
                    onClose={() => {
                        making.value = false;
                        load.reload();
                    }}
                />
            )}
            {made.value && <Made token={made.value} onClose={() => (made.value = "")} />}
        </>
    );
}
