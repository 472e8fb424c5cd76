// Runs notebooks in a real JupyterLab in a real Chromium and fails when a user would see something wrong.
//
//   node jupyterlab.mjs [--jupyter PATH] [--chromium PATH] [--out DIR] NOTEBOOK.ipynb...
//
//   --jupyter   the jupyter command of an environment with JupyterLab (default: jupyter on PATH)
//   --chromium  the browser (default: /usr/bin/chromium, or $CHROMIUM)
//   --out       folder for one screenshot a notebook, NAME.png (default: shots)
//
// Each notebook is copied to an empty folder, opened with the kernel it asks for (normally rooflab-go), run with
// "Run All Cells" and looked at. It fails on an error output, a cell that did not run, a dialog (as when the kernel
// is unknown or died), a picture that does not show, a cell that is not coloured as Go, and a request to any other
// host. The kernel must be where Jupyter looks, for example in $JUPYTER_PATH.
//
// Exit code: 0 all notebooks are fine, 1 one is not, 2 wrong call.

import { chromium } from "playwright-core";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { launchOptions, pause, startLab, startLimit } from "./lab.mjs";

const runLimit = 300_000; // all cells of one notebook

const { values: flags, positionals: notebooks } = parseArgs({
  allowPositionals: true,
  options: {
    jupyter: { type: "string", default: "jupyter" },
    chromium: { type: "string", default: process.env.CHROMIUM || "/usr/bin/chromium" },
    out: { type: "string", default: "shots" },
  },
});
if (notebooks.length === 0) {
  console.error("usage: node jupyterlab.mjs [--jupyter PATH] [--chromium PATH] [--out DIR] NOTEBOOK.ipynb...");
  process.exit(2);
}

const work = mkdtempSync(join(tmpdir(), "rooflab-lab-"));
mkdirSync(flags.out, { recursive: true });
let lab, browser;
try {
  lab = await startLab(work, flags.jupyter);
  browser = await chromium.launch(launchOptions(flags.chromium));
  for (const file of notebooks) {
    const faults = await check(file);
    console.log(`${faults.length ? "FAIL" : "ok  "} ${file}`);
    for (const fault of faults) console.log(`     ${fault}`);
    if (faults.length) process.exitCode = 1;
  }
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await lab?.stop();
  rmSync(work, { recursive: true, force: true });
}

// check runs one notebook and returns what is wrong.
async function check(file) {
  const name = basename(file);
  copyFileSync(file, join(lab.dir, name));
  const page = await browser.newPage({ viewport: { width: 1100, height: 1200 } });
  const faults = [];
  page.on("request", request => {
    const { protocol, host } = new URL(request.url());
    if (protocol.startsWith("http") && host !== new URL(lab.url).host) faults.push(`request to ${host}`);
  });
  page.on("pageerror", err => faults.push(`error in the page: ${err.message}`));
  try {
    await page.goto(`${lab.url}/lab/tree/${encodeURIComponent(name)}?reset`, { timeout: startLimit });
    await ready(page, faults);
    if (faults.length === 0) {
      await runAll(page);
      faults.push(...await look(page));
    }
    await shoot(page, join(flags.out, name.replace(/\.ipynb$/, ".png")));
  } catch (err) {
    faults.push(err.message.split("\n")[0], ...await dialogs(page));
    await page.screenshot({ path: join(flags.out, name.replace(/\.ipynb$/, ".png")) }).catch(() => {});
  }
  await page.close();
  return faults;
}

// ready waits until the notebook has a kernel that is idle. A dialog comes when it cannot get one.
async function ready(page, faults) {
  await page.waitForFunction(() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return document.querySelector(".jp-Dialog") || panel?.sessionContext?.session?.kernel?.status === "idle";
  }, undefined, { timeout: startLimit });
  faults.push(...await dialogs(page));
}

async function dialogs(page) {
  const texts = await page.locator(".jp-Dialog").allInnerTexts().catch(() => []);
  return texts.map(text => `dialog: ${text.replace(/\s+/g, " ")}`);
}

// runAll runs every cell. It returns at once when a dialog stops the run.
async function runAll(page) {
  await page.evaluate(() => {
    window.rooflabDone = false;
    window.jupyterapp.commands.execute("notebook:run-all-cells").then(() => { window.rooflabDone = true; });
  });
  await page.waitForFunction(() => window.rooflabDone || document.querySelector(".jp-Dialog"), undefined, { timeout: runLimit });
  await pause(500); // the last outputs are drawn
}

// look compares what the notebook holds and shows with what it should.
async function look(page) {
  const faults = await dialogs(page);
  const cells = await page.evaluate(() => {
    const list = [];
    for (const cell of window.jupyterapp.shell.currentWidget.content.model.cells) {
      if (cell.type === "code") list.push(cell.toJSON());
    }
    return list;
  });
  cells.forEach((cell, i) => {
    const source = [cell.source].flat().join("");
    if (source.trim() && cell.execution_count === null) faults.push(`code cell ${i + 1} did not run`);
    for (const out of cell.outputs) {
      if (out.output_type === "error") faults.push(`code cell ${i + 1}: ${out.ename}: ${out.evalue}`);
    }
  });
  const broken = await page.evaluate(async () => {
    const images = [...document.querySelectorAll(".jp-OutputArea img")];
    await Promise.all(images.map(img => img.decode().catch(() => {})));
    return images.filter(img => img.naturalWidth === 0).length;
  });
  if (broken) faults.push(`${broken} pictures do not show`);
  const words = cells.some(cell => /\bfunc\b|\bimport\b/.test([cell.source].flat().join("")));
  if (words && await page.locator(".jp-CodeCell .cm-content span[class*='ͼ']").count() === 0) faults.push("cells are not coloured as Go");
  return faults;
}

// shoot makes the page as high as the notebook, so that the picture shows all of it.
async function shoot(page, path) {
  const height = await page.evaluate(() => Math.max(1000,
    ...[...document.querySelectorAll(".jp-NotebookPanel .jp-WindowedPanel-outer, .jp-NotebookPanel .jp-Notebook")].map(e => e.scrollHeight)));
  await page.setViewportSize({ width: 1100, height: Math.min(height + 200, 12_000) });
  await page.evaluate(() => document.querySelectorAll(".jp-NotebookPanel *").forEach(e => { if (e.scrollTop) e.scrollTop = 0; }));
  await pause(500);
  await page.screenshot({ path });
}
