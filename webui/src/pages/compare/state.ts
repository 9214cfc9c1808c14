// The state of the page, all of it in the address: the compared runs and the view.

import { flag, list, queryParam, text } from "../../lib/url";

export const MAX_RUNS = 50;

/** The ids of trials, and of experiments, which stand for their best trials. */
export const trials = queryParam("trials", list());
export const experiments = queryParam("experiments", list());
/** The trial with which the others are compared. */
export const baselineId = queryParam("base", text());
export const hidden = queryParam("hidden", list());
export const tab = queryParam("tab", text("charts"));
export const metricSearch = queryParam("metrics", text());
export const valueKind = queryParam("value", text("last"));
export const showsEqual = queryParam("all", flag());

export function toggle(at: { value: readonly string[] }, word: string): void {
    const words = at.value;
    at.value = words.includes(word) ? words.filter((one) => one !== word) : [...words, word];
}

export function addIds(to: { value: readonly string[] }, ids: readonly number[]): void {
    to.value = [...new Set([...to.value, ...ids.map(String)])].slice(0, MAX_RUNS);
}
