// The difference between two texts, by lines. Myers, "An O(ND) Difference Algorithm" (1986).

export interface DiffLine {
    kind: "same" | "removed" | "added";
    text: string;
    /** The line numbers in both texts, from 1; 0: the text does not have the line. */
    before: number;
    after: number;
}

/** For each number of edits, how far each diagonal reaches, until both texts are at their end. */
function findEdits(a: readonly string[], b: readonly string[]): Int32Array[] {
    const maxEdits = a.length + b.length;
    const reach = new Int32Array(2 * maxEdits + 3);
    const trace: Int32Array[] = [];
    for (let edits = 0; edits <= maxEdits; edits++) {
        trace.push(reach.slice());
        for (let k = -edits; k <= edits; k += 2) {
            const at = k + maxEdits + 1;
            const isDown = k === -edits || (k !== edits && reach[at - 1]! < reach[at + 1]!);
            let x = isDown ? reach[at + 1]! : reach[at - 1]! + 1;
            while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
            reach[at] = x;
            if (x >= a.length && x - k >= b.length) return trace;
        }
    }
    return trace;
}

function diffMiddle(a: readonly string[], b: readonly string[], offset: number): DiffLine[] {
    const trace = findEdits(a, b);
    const maxEdits = a.length + b.length;
    const lines: DiffLine[] = [];
    let x = a.length;
    let y = b.length;
    const push = (kind: DiffLine["kind"]) =>
        lines.push({
            kind,
            text: kind === "added" ? b[y - 1]! : a[x - 1]!,
            before: kind === "added" ? 0 : x + offset,
            after: kind === "removed" ? 0 : y + offset,
        });
    for (let edits = trace.length - 1; edits >= 0; edits--) {
        const reach = trace[edits]!;
        const k = x - y;
        const at = k + maxEdits + 1;
        const isDown = k === -edits || (k !== edits && reach[at - 1]! < reach[at + 1]!);
        const fromK = isDown ? k + 1 : k - 1;
        const fromX = reach[fromK + maxEdits + 1]!;
        const fromY = fromX - fromK;
        for (; x > fromX && y > fromY && x > 0 && y > 0; x--, y--) push("same");
        if (edits === 0) break;
        push(isDown ? "added" : "removed");
        x = fromX;
        y = fromY;
    }
    return lines.reverse();
}

export function diffLines(before: string, after: string): DiffLine[] {
    const a = before.split("\n");
    const b = after.split("\n");
    let first = 0;
    while (first < a.length && first < b.length && a[first] === b[first]) first++;
    let last = 0;
    const shortest = Math.min(a.length, b.length) - first;
    while (last < shortest && a[a.length - 1 - last] === b[b.length - 1 - last]) last++;
    const same = (text: string, i: number, j: number): DiffLine => ({
        kind: "same",
        text,
        before: i + 1,
        after: j + 1,
    });
    return [
        ...a.slice(0, first).map((text, i) => same(text, i, i)),
        ...diffMiddle(a.slice(first, a.length - last), b.slice(first, b.length - last), first),
        ...a
            .slice(a.length - last)
            .map((text, i) => same(text, a.length - last + i, b.length - last + i)),
    ];
}
