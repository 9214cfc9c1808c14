// Saves data of the page as files.

type Cell = string | number | boolean | null | undefined;

/** Spreadsheets evaluate a text that begins like a formula. A leading quote prevents that. */
function escapeFormula(text: string): string {
    return /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
}

function csvCell(cell: Cell): string {
    const text = typeof cell === "string" ? escapeFormula(cell) : String(cell ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** RFC 4180. */
export function toCsv(header: readonly string[], rows: Iterable<readonly Cell[]>): string {
    const lines = [header.map(csvCell).join(",")];
    for (const row of rows) lines.push(row.map(csvCell).join(","));
    return `${lines.join("\r\n")}\r\n`;
}

/** A name that every file system accepts. */
export function safeFileName(name: string): string {
    return name.replace(/[^\w.-]+/g, "-").replace(/^[-.]+|-+$/g, "") || "muster";
}

export function saveFile(name: string, type: string, content: string | Blob): void {
    const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = safeFileName(name);
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
