// Things of the page as files.

type Cell = string | number | boolean | null | undefined;

/** A spreadsheet computes what begins like a formula; behind a quote it is text. */
function inert(text: string): string {
    return /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
}

function csvCell(cell: Cell): string {
    const text = typeof cell === "string" ? inert(cell) : String(cell ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** RFC 4180. */
export function csv(head: readonly string[], rows: Iterable<readonly Cell[]>): string {
    const lines = [head.map(csvCell).join(",")];
    for (const row of rows) lines.push(row.map(csvCell).join(","));
    return `${lines.join("\r\n")}\r\n`;
}

/** A name that every file system takes. */
export function fileName(name: string): string {
    return name.replace(/[^\w.-]+/g, "-").replace(/^[-.]+|-+$/g, "") || "muster";
}

export function save(name: string, type: string, what: string | Blob): void {
    const url = URL.createObjectURL(typeof what === "string" ? new Blob([what], { type }) : what);
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = fileName(name);
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
