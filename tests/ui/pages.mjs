// Runs the programs of pages/, or those that are named: node pages.mjs sign_in experiments

import { readdirSync } from "node:fs";
import { after } from "node:test";
import { close } from "./browser.mjs";

const all = readdirSync(new URL("pages", import.meta.url)).map((name) => name.replace(/\.mjs$/, ""));
const named = process.argv.slice(2);
for (const name of named.length ? named : all.sort()) await import(`./pages/${name}.mjs`);
after(close);
