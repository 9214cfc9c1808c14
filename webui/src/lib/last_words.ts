// What the programs of a trial wrote last to where errors are written.

import { stream } from "./api";
import type { TaskLog } from "./types";

export async function lastWords(trialId: number, abort: AbortSignal): Promise<string> {
    let said = "";
    const query = { limit: 1, orderBy: "ORDER_BY_DESC", sources: "task", stdtypes: "stderr" };
    const each = (lines: TaskLog[]) => (said = lines[0]?.log ?? said);
    await stream<TaskLog>(`/trials/${trialId}/logs`, query, each, abort);
    return said.trim();
}
