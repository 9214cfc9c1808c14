// The projects that an experiment can be put into.

import { get } from "./api";
import type { Project, Workspace } from "./types";

export async function readProjects(abort?: AbortSignal): Promise<Project[]> {
    const query = { limit: 200, archived: false };
    const { workspaces } = await get<{ workspaces: Workspace[] }>("/workspaces", query, abort);
    const lists = await Promise.all(
        workspaces.map(async ({ id, name }) => {
            const path = `/workspaces/${id}/projects`;
            const { projects } = await get<{ projects: Project[] }>(path, query, abort);
            return projects.map((project) => ({ ...project, workspaceName: name }));
        }),
    );
    return lists.flat();
}

export const projectOptions = (projects: readonly Project[]) =>
    projects.map(({ id, name, workspaceName }) => ({ value: String(id), title: `${workspaceName} / ${name}` }));
