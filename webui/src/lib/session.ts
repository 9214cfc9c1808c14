// Who is signed in. The session itself is a cookie that scripts cannot read.

import { type ReadonlySignal, signal } from "@preact/signals";
import { ApiError, get, send, whenSignedOut } from "./api";
import { restartEvents } from "./live";
import type { Member, Role, User, Workspace } from "./types";

const known = signal<User | null | undefined>(undefined);

/** undefined: not known yet; null: nobody, so the sign-in form is shown. */
export const user: ReadonlySignal<User | null | undefined> = known;

export function isAdmin(): boolean {
    return known.value?.admin ?? false;
}

export async function readSession(): Promise<void> {
    whenSignedOut(forget);
    pages ??= new BroadcastChannel("muster-session");
    pages.onmessage = ({ data }: MessageEvent<number | null>) => void hear(data);
    await ask();
}

async function ask(): Promise<void> {
    try {
        known.value = (await get<{ user: User }>("/me")).user;
        isTold = false;
    } catch (error) {
        if (!(error instanceof ApiError && error.status === 401)) throw error;
    }
}

// All pages of a browser share one session: a user who signs in or out on one does so on all of them. Pages tell
// each other the id of the user, null for nobody.
let pages: BroadcastChannel | undefined;
let isTold = false; // that nobody is signed in any more, by another page

async function hear(id: number | null): Promise<void> {
    const mine = known.peek()?.id ?? null;
    if (id === mine) return;
    if (id !== null) return location.reload(); // nothing of the user before may stay
    isTold = true;
    await ask().catch(() => undefined); // 401 shows the sign-in form
}

export async function signIn(username: string, password: string): Promise<void> {
    const body = { username, password, isHashed: false };
    known.value = (await send<{ user: User }>("POST", "/auth/login?cookie=true", body)).user;
    isTold = false;
    restartEvents();
    pages?.postMessage(known.value.id);
}

export async function signOut(): Promise<void> {
    await send("POST", "/auth/logout");
    forget();
}

function forget(): void {
    if (known.value && !isTold) pages?.postMessage(null);
    known.value = null;
    roles.clear();
}

// --- what the caller may -------------------------------------------------------------------------

const ladder: readonly Role[] = ["none", "viewer", "editor", "admin"];
const roles = new Map<number, ReadonlySignal<Role | undefined>>();

async function askRole(workspaceId: number, me: User): Promise<Role> {
    const { workspace } = await get<{ workspace: Workspace }>(`/workspaces/${workspaceId}`);
    if (workspace.userId === me.id) return "admin";
    const { members } = await get<{ members: Member[] }>(`/workspaces/${workspaceId}/members`);
    const own = members.find((member) => member.userId === me.id)?.role;
    return own || workspace.defaultRole || "none";
}

/** The caller's role in a workspace; undefined until it is known. */
export function roleIn(workspaceId: number): Role | undefined {
    const me = known.value;
    if (!me) return undefined;
    if (me.admin) return "admin";
    const found = roles.get(workspaceId);
    if (found) return found.value;
    const role = signal<Role | undefined>(undefined);
    roles.set(workspaceId, role);
    askRole(workspaceId, me).then(
        (answer) => (role.value = answer),
        () => roles.delete(workspaceId),
    );
    return role.value;
}

function lacks(workspaceId: number, least: Role): boolean {
    const role = roleIn(workspaceId);
    return role !== undefined && ladder.indexOf(role) < ladder.indexOf(least);
}

/** Why the caller may not change what is that user's in this workspace; undefined: he may. */
export function mayChange(workspaceId = 1, ownerId?: number): string | undefined {
    if (!known.value) return "Sign in first";
    if (lacks(workspaceId, "editor")) return "This takes the role editor in the workspace";
    if (ownerId !== undefined && ownerId !== known.value.id && lacks(workspaceId, "admin"))
        return "It is another user's: only an administrator of the workspace may change it";
    return undefined;
}

export function mayManage(workspaceId = 1): string | undefined {
    if (!known.value) return "Sign in first";
    return lacks(workspaceId, "admin") ? "This takes the role admin in the workspace" : undefined;
}
