// Bundles the tests of the pure model (no browser, no DOM) and runs them with node's own test runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const tests = (await readdir(join(root, "tests"))).filter((name) => name.endsWith(".test.ts"));
const folder = await mkdtemp(join(tmpdir(), "poolgrad-studio-"));
try {
  await build({
    entryPoints: tests.map((name) => join(root, "tests", name)),
    bundle: true, outdir: folder, format: "esm", platform: "node", target: "node20",
    outExtension: { ".js": ".mjs" }, sourcemap: "inline", logLevel: "warning",
  });
  const run = spawnSync(process.execPath,
    ["--enable-source-maps", "--test", ...tests.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")))],
    { stdio: "inherit" });
  process.exitCode = run.status ?? 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
