// Toasts and confirmation dialogs, for use from any module. parts/overlay/toasts.tsx renders them.

import { signal } from "@preact/signals";
import { ApiError, isAbort } from "./api";

export type ToastKind = "plain" | "good" | "bad";

export interface Toast {
    id: number;
    text: string;
    kind: ToastKind;
    details?: string;
}

export interface Confirmation {
    title: string;
    text?: string;
    verb: string;
    danger?: boolean;
    answer(yes: boolean): void;
}

const MAX_TOASTS = 4;

export const toastList = signal<readonly Toast[]>([]);
export const confirmation = signal<Confirmation | null>(null);

let lastId = 0;

export function dismiss(id: number): void {
    toastList.value = toastList.peek().filter((notice) => notice.id !== id);
}

export function toast(text: string, kind: ToastKind = "plain", details?: string): void {
    const notice: Toast = { id: ++lastId, text, kind };
    if (details) notice.details = details;
    toastList.value = [...toastList.peek(), notice].slice(-MAX_TOASTS);
    setTimeout(() => dismiss(notice.id), kind === "bad" ? 12_000 : 5_000);
}

export function errorText(error: unknown): string {
    return error instanceof Error ? error.message : String(error);
}

export function errorAdvice(error: unknown): string {
    return error instanceof ApiError ? error.advice : "";
}

export function toastError(error: unknown): void {
    if (isAbort(error)) return;
    toast(errorText(error), "bad", errorAdvice(error));
}

export function confirm(question: Omit<Confirmation, "answer">): Promise<boolean> {
    confirmation.peek()?.answer(false);
    return new Promise((resolve) => {
        const answer = (yes: boolean) => {
            confirmation.value = null;
            resolve(yes);
        };
        confirmation.value = { ...question, answer };
    });
}
