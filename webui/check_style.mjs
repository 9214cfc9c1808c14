// node check_style.mjs FOLDER..: checks the size of functions, files and folders of the web page.
// It prints each violation as file:line: text, and ends with exit status 1 if there is one.
//
// TypeScript's own parser finds the functions. It is loaded from node_modules of the current folder, which is
// webui/ after `npm ci`, or the folder webui of a build.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const FUNCTION_LINES = 80;
const FILE_LINES = 700;
const FOLDER_FILES = 25;
const SOURCE = /\.(tsx?|mjs|css)$/;
const SCRIPT = /\.(tsx?|mjs)$/;

const require = createRequire(resolve("package.json"));
const ts = require("typescript");
let violations = 0;

function report(path, line, text) {
    console.error(`${path}:${line}: ${text}`);
    violations++;
}

/** The name of a function, or of the variable or property that holds it. */
function nameOf(node, file) {
    const name = node.name ?? node.parent.name;
    return name ? name.getText(file) : "a function";
}

function checkFunctions(path, text) {
    const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const lineOf = (position) => file.getLineAndCharacterOfPosition(position).line + 1;
    const visit = (node) => {
        if (ts.isFunctionLike(node) && node.body) {
            const first = lineOf(node.getStart(file));
            const lines = lineOf(node.end) - first + 1;
            if (lines > FUNCTION_LINES)
                report(path, first, `${nameOf(node, file)} has ${lines} lines; a function has at most ${FUNCTION_LINES}`);
        }
        ts.forEachChild(node, visit);
    };
    visit(file);
}

function checkFile(path) {
    const text = readFileSync(path, "utf8");
    const lines = text.split("\n").length - 1;
    if (lines > FILE_LINES) report(path, FILE_LINES + 1, `${lines} lines; a file has at most ${FILE_LINES}`);
    if (SCRIPT.test(path)) checkFunctions(path, text);
}

function checkFolder(path) {
    const entries = readdirSync(path, { withFileTypes: true }).filter(({ name }) => !/^(node_modules|dist)$/.test(name));
    const sources = entries.filter((entry) => entry.isFile() && SOURCE.test(entry.name));
    if (sources.length > FOLDER_FILES)
        report(path, 1, `${sources.length} source files; a folder has at most ${FOLDER_FILES}`);
    for (const { name } of sources) checkFile(join(path, name));
    for (const entry of entries) if (entry.isDirectory()) checkFolder(join(path, entry.name));
}

for (const folder of process.argv.slice(2)) checkFolder(folder);
process.exit(violations ? 1 : 0);
