import { toast } from "./notices";

const SHOWN = 300;

export async function copyText(text: string): Promise<void> {
    const shown = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
    try {
        await navigator.clipboard.writeText(text);
        toast("Copied", "good", shown);
    } catch {
        toast("The browser does not let this page copy; here it is, to copy by hand.", "bad", text);
    }
}
