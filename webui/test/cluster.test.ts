// Slots, agents and jobs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { experimentIdOf, agentHealth, jobTitle, slotRanges, agentSlots, displayedSlots } from "../src/lib/cluster";
import type { Job, Slot } from "../src/lib/types";

const held = (allocationId: string): Slot => ({
    enabled: true,
    container: { id: "c", state: "STATE_RUNNING", allocationId },
});
const free: Slot = { enabled: true };
const off: Slot = { enabled: false };

test("the experiment of an allocation; other tasks have none", () => {
    assert.equal(experimentIdOf("12.34.2"), 12);
    assert.equal(experimentIdOf("8a0e-command.1"), undefined);
    assert.equal(experimentIdOf(undefined), undefined);
});

test("adjacent equal slots form ranges, and no range crosses the end of a row", () => {
    const slots = [held("1.1.1"), held("1.1.1"), held("2.2.1"), free, off, off];
    const runs = slotRanges(slots, 8).map((run) => [run.first, run.count, run.experimentId, run.isOff]);
    assert.deepEqual(runs, [
        [0, 2, 1, false],
        [2, 1, 2, false],
        [3, 1, undefined, false],
        [4, 2, undefined, true],
    ]);
    const cut = slotRanges(Array.from({ length: 5 }, () => held("1.1.1")), 2);
    assert.deepEqual(cut.map((run) => run.count), [2, 2, 1]);
});

test("a slot with a fault is its own range, unless the fault is noted or overruled", () => {
    const fault = { grade: "ends", reason: "Xid 79", overruled: false };
    const noted = { ...fault, grade: "noted" };
    const slots: Slot[] = [off, { ...off, fault }, { ...free, fault: noted }, { ...free, fault: { ...fault, overruled: true } }];
    assert.deepEqual(slotRanges(slots, 8).map((run) => [run.count, run.fault]), [[1, undefined], [1, "Xid 79"], [2, undefined]]);
});

test("slots are sorted by number", () => {
    const slots = { 10: free, 9: free, 1: free };
    assert.deepEqual(agentSlots({ id: "a", slots }).map((slot) => slot.id), ["1", "9", "10"]);
});

test("the slots of a lost agent show their last allocations", () => {
    const agent = { id: "a", slots: { 0: free, 1: free }, ran: [{ allocationId: "4.5.1", slots: [1] }] };
    const shown = (lost: boolean) => displayedSlots({ ...agent, lost }).map((slot) => slot.container?.allocationId);
    assert.deepEqual(shown(true), [undefined, "4.5.1"]);
    assert.deepEqual(shown(false), [undefined, undefined]);
});

test("a disconnected agent is shown as disconnected, even if it is enabled or draining", () => {
    assert.equal(agentHealth({ id: "a", connected: false, enabled: true }), "AWAY");
    assert.equal(agentHealth({ id: "a", connected: false, lost: true, enabled: false }), "LOST");
    assert.equal(agentHealth({ id: "a", enabled: false, draining: true }), "DRAINING");
    assert.equal(agentHealth({ id: "a", enabled: false }), "DISABLED");
    assert.equal(agentHealth({ id: "a", enabled: true, draining: false }), "ENABLED");
});

test("a job of a hidden team has no name", () => {
    const job = { type: "TYPE_EXPERIMENT", entityId: "7", name: "unet" } as Job;
    assert.equal(jobTitle(job), "#7 unet");
    assert.equal(jobTitle({ ...job, name: "" }), "A job of another team");
});
