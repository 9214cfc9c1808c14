// Words to the user from anywhere: short notices, and questions that are to be answered first. What
// shows them is in parts/notices.

import { signal } from "@preact/signals";
import { ApiError, isAbort } from "./api";

export type NoticeKind = "plain" | "good" | "bad";

export interface Notice {
    id: number;
    text: string;
    kind: NoticeKind;
    more?: string;
}

export interface Question {
    title: string;
    text?: string;
    verb: string;
    danger?: boolean;
    answer(yes: boolean): void;
}

const SHOWN = 4;

export const notices = signal<readonly Notice[]>([]);
export const question = signal<Question | null>(null);

let last = 0;

export function dismiss(id: number): void {
    notices.value = notices.peek().filter((notice) => notice.id !== id);
}

export function toast(text: string, kind: NoticeKind = "plain", more?: string): void {
    const notice: Notice = { id: ++last, text, kind };
    if (more) notice.more = more;
    notices.value = [...notices.peek(), notice].slice(-SHOWN);
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

export function confirm(ask: Omit<Question, "answer">): Promise<boolean> {
    question.peek()?.answer(false);
    return new Promise((resolve) => {
        const answer = (yes: boolean) => {
            question.value = null;
            resolve(yes);
        };
        question.value = { ...ask, answer };
    });
}
