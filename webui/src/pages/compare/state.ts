// What the page compares and how, all of it in the address.

import { flag, list, param, text } from "../../lib/url";

export const MOST = 50;

/** Trials by number; of the experiments the best trial of each. */
export const trials = param("trials", list());
export const experiments = param("experiments", list());
/** The trial that the others are measured against. */
export const base = param("base", text());
export const hidden = param("hidden", list());
export const tab = param("tab", text("charts"));
export const wanted = param("metrics", text());
export const pick = param("value", text("last"));
export const whole = param("all", flag());

export function toggle(at: { value: readonly string[] }, word: string): void {
    const words = at.value;
    at.value = words.includes(word) ? words.filter((one) => one !== word) : [...words, word];
}

export function add(to: { value: readonly string[] }, ids: readonly number[]): void {
    to.value = [...new Set([...to.value, ...ids.map(String)])].slice(0, MOST);
}
