import { toast } from "./toasts";

const MAX_SHOWN = 300;

export async function copyText(text: string): Promise<void> {
    const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
    try {
        await navigator.clipboard.writeText(text);
        toast("Copied", "good", shown);
    } catch {
        toast("The browser does not allow copying. Copy this text by hand.", "bad", text);
    }
}
