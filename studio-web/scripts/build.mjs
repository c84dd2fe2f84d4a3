// Builds the page into src/poolgrad/studio/web/ (or the directory given as the first argument).
// `--watch` is for development: it rebuilds on every change and keeps readable names.
import { build, context } from "esbuild";
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const flags = process.argv.slice(2);
const watch = flags.includes("--watch");
const target = resolve(flags.find((flag) => !flag.startsWith("--")) ?? join(root, "../src/poolgrad/studio/web"));

const options = {
  entryPoints: { app: join(root, "src/main.tsx") },
  bundle: true,
  outdir: target,
  format: "iife",
  target: ["es2022"],
  jsx: "automatic",
  minify: !watch,
  legalComments: "none",
  charset: "utf8",
  metafile: true,
  define: { "process.env.NODE_ENV": watch ? '"development"' : '"production"' },
  logLevel: "info",
};

/** Every package that ended up in the bundle, with the text of its licence. */
async function licences(metafile) {
  const names = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) names.add(match[1]);
  }
  const parts = ["The studio page bundles these packages. Each is used under its own licence, below.\n"];
  for (const name of [...names].sort()) {
    const folder = join(root, "node_modules", name);
    const about = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file; it cannot be bundled`);
    parts.push(`${"=".repeat(80)}\n${name} ${about.version} (${about.license})\n\n${await readFile(join(folder, file), "utf8")}`);
  }
  return parts.join("\n");
}

await mkdir(target, { recursive: true });
for (const name of ["index.html", "favicon.svg"]) await copyFile(join(root, "src", name), join(target, name));
if (watch) {
  await (await context(options)).watch();
} else {
  const { metafile } = await build(options);
  await writeFile(join(target, "LICENSES.txt"), await licences(metafile));
}
