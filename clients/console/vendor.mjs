// Writes pages/vendor/ from the packages that package-lock.json pins: one ES module for each library, its types, its
// license. `node vendor.mjs --check` ends with 1 where the folder is not what the lock gives. No build runs elsewhere.

import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const HERE = import.meta.dirname;
const VENDOR = join(HERE, "src/windlass_console/pages/vendor");
const MODULES = [
  {
    file: "preact.js",
    from: ["preact", "htm"],
    source: `export { Component, Fragment, createContext, h, render } from "preact";
export { useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import htm from "htm";
import { h } from "preact";
export const html = htm.bind(h);`,
    types: `export { Component, Fragment, createContext, h, render } from "preact";
export type { ComponentChildren, VNode } from "preact";
export { useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
export declare const html: (strings: TemplateStringsArray, ...values: unknown[]) => VNode;
`,
  },
  {
    file: "yaml.js",
    from: ["yaml"],
    source: `export { Document, LineCounter, isCollection, parseDocument } from "yaml";`,
    types: `export { Document, LineCounter, isCollection, parseDocument } from "yaml";
`,
  },
];

const versionOf = (name) => JSON.parse(readFileSync(join(HERE, "node_modules", name, "package.json"), "utf8")).version;

async function write(folder) {
  for (const { file, from, source, types } of MODULES) {
    const names = from.map((name) => `${name} ${versionOf(name)}`).join(", ");
    await build({
      stdin: { contents: source, resolveDir: HERE },
      outfile: join(folder, file),
      bundle: true,
      format: "esm",
      target: "es2022",
      platform: "browser",
      minify: true,
      legalComments: "none",
      banner: { js: `// ${names}, bundled by clients/console/vendor.mjs; licenses beside this file.` },
    });
    writeFileSync(join(folder, file.replace(".js", ".d.ts")), types);
    for (const name of from) {
      writeFileSync(join(folder, `LICENSE-${name}.txt`), readFileSync(join(HERE, "node_modules", name, "LICENSE")));
    }
  }
}

if (process.argv.includes("--check")) {
  const fresh = mkdtempSync(join(tmpdir(), "windlass-vendor-"));
  await write(fresh);
  const stale = readdirSync(fresh).filter((file) => {
    const [now, then] = [join(fresh, file), join(VENDOR, file)].map((path) => readFileSync(path, "utf8"));
    return now !== then;
  });
  rmSync(fresh, { recursive: true });
  if (stale.length) {
    console.error(`pages/vendor is not what package-lock.json gives: ${stale.join(", ")}; run: npm run vendor`);
    process.exit(1);
  }
} else {
  await write(VENDOR);
}
