// The projects that an experiment can be put into.

import { get } from "./api";
import type { Project, Workspace } from "./types";

interface Place {
    workspaceName?: string | undefined;
    projectName?: string | undefined;
}

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

/** "Vision / letters"; once where the project is called as its team is. */
export const placeOf = ({ workspaceName = "", projectName = "" }: Place): string =>
    workspaceName === projectName ? projectName : `${workspaceName} / ${projectName}`;

export const projectOptions = (projects: readonly Project[]) =>
    projects.map(({ id, name, workspaceName }) => ({ value: String(id), title: placeOf({ workspaceName, projectName: name }) }));
