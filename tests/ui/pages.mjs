// Runs the tests in pages/, or only those named: node pages.mjs sign_in experiments

import { readdirSync } from "node:fs";
import { after } from "node:test";
import { closeBrowser } from "./browser.mjs";

const LAST = "browser_tabs"; // it restarts the master, which ends the running experiments of the cluster

const all = readdirSync(new URL("pages", import.meta.url)).map((name) => name.replace(/\.mjs$/, ""));
const inOrder = [...all.filter((name) => name !== LAST).sort(), LAST];
const named = process.argv.slice(2);
for (const name of named.length ? named : inOrder) await import(`./pages/${name}.mjs`);
after(closeBrowser);
