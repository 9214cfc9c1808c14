// The signed-in user and their roles. The session itself is a cookie that scripts cannot read.

import { type ReadonlySignal, signal } from "@preact/signals";
import { ApiError, get, send, onSignedOut } from "./api";
import { restartEvents } from "./events/subscribe";
import type { Member, Role, User, Workspace } from "./types";

const currentUser = signal<User | null | undefined>(undefined);

/** undefined: not known yet; null: nobody is signed in, so the sign-in form is shown. */
export const user: ReadonlySignal<User | null | undefined> = currentUser;

export function isAdmin(): boolean {
    return currentUser.value?.admin ?? false;
}

export async function readSession(): Promise<void> {
    onSignedOut(clearSession);
    channel ??= new BroadcastChannel("muster-session");
    channel.onmessage = ({ data }: MessageEvent<number | null>) => void onBroadcast(data);
    await readUser();
}

async function readUser(): Promise<void> {
    try {
        currentUser.value = (await get<{ user: User }>("/me")).user;
        isSignOutKnown = false;
    } catch (error) {
        if (!(error instanceof ApiError && error.status === 401)) throw error;
    }
}

// All pages of a browser share one session, so signing in or out applies to all of them. The pages send each
// other the id of the user, or null.
let channel: BroadcastChannel | undefined;
let isSignOutKnown = false; // another page has reported it

async function onBroadcast(id: number | null): Promise<void> {
    const ownId = currentUser.peek()?.id ?? null;
    if (id === ownId) return;
    if (id !== null) return location.reload(); // drops all data of the previous user
    isSignOutKnown = true;
    await readUser().catch(() => undefined); // 401 shows the sign-in form
}

export async function signIn(username: string, password: string): Promise<void> {
    const body = { username, password, isHashed: false };
    currentUser.value = (await send<{ user: User }>("POST", "/auth/login?cookie=true", body)).user;
    isSignOutKnown = false;
    restartEvents();
    channel?.postMessage(currentUser.value.id);
}

export async function signOut(): Promise<void> {
    await send("POST", "/auth/logout");
    clearSession();
}

function clearSession(): void {
    if (currentUser.value && !isSignOutKnown) channel?.postMessage(null);
    currentUser.value = null;
    roles.clear();
}

// --- permissions ---------------------------------------------------------------------------------

const rolesByRank: readonly Role[] = ["none", "viewer", "editor", "admin"];
const roles = new Map<number, ReadonlySignal<Role | undefined>>();

async function readRole(workspaceId: number, caller: User): Promise<Role> {
    const { workspace } = await get<{ workspace: Workspace }>(`/workspaces/${workspaceId}`);
    if (workspace.userId === caller.id) return "admin";
    const { members } = await get<{ members: Member[] }>(`/workspaces/${workspaceId}/members`);
    const own = members.find((member) => member.userId === caller.id)?.role;
    return own || workspace.defaultRole || "none";
}

/** The user's role in a workspace; undefined until it is known. */
export function roleIn(workspaceId: number): Role | undefined {
    const me = currentUser.value;
    if (!me) return undefined;
    if (me.admin) return "admin";
    const found = roles.get(workspaceId);
    if (found) return found.value;
    const role = signal<Role | undefined>(undefined);
    roles.set(workspaceId, role);
    readRole(workspaceId, me).then(
        (answer) => (role.value = answer),
        () => roles.delete(workspaceId),
    );
    return role.value;
}

function lacksRole(workspaceId: number, minRole: Role): boolean {
    const role = roleIn(workspaceId);
    return role !== undefined && rolesByRank.indexOf(role) < rolesByRank.indexOf(minRole);
}

/** Returns why the user may not change an object of `ownerId` in this workspace; undefined: the user may. */
export function changeDeniedReason(workspaceId = 1, ownerId?: number): string | undefined {
    if (!currentUser.value) return "Sign in first";
    if (lacksRole(workspaceId, "editor")) return "This requires the role editor in the workspace";
    if (ownerId !== undefined && ownerId !== currentUser.value.id && lacksRole(workspaceId, "admin"))
        return "This belongs to another user. Only administrators of the workspace may change it";
    return undefined;
}

export function manageDeniedReason(workspaceId = 1): string | undefined {
    if (!currentUser.value) return "Sign in first";
    return lacksRole(workspaceId, "admin") ? "This requires the role admin in the workspace" : undefined;
}
