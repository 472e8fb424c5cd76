// Works in a real JupyterLab in a real Chromium as a person would: types cells, completes, asks for help,
// interrupts, restarts; and looks at what comes.
//
//   node hands.mjs [--jupyter PATH] [--chromium PATH] [--kernel NAME] [--out DIR]
//
// Each step says what it does and fails with what was seen instead. Screenshots are left in DIR.
//
// Exit code: 0 all steps went well, 1 one did not.

import { chromium } from "playwright-core";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { launchOptions, pause, startLab, startLimit } from "./lab.mjs";

const { values: flags } = parseArgs({
  options: {
    jupyter: { type: "string", default: "jupyter" },
    chromium: { type: "string", default: process.env.CHROMIUM || "/usr/bin/chromium" },
    kernel: { type: "string", default: "rooflab-go" },
    out: { type: "string", default: "shots" },
  },
});
const stepLimit = 60_000; // one answer of the kernel on a busy machine

const work = mkdtempSync(join(tmpdir(), "rooflab-hands-"));
mkdirSync(flags.out, { recursive: true });
let lab, browser, page;
try {
  lab = await startLab(work, flags.jupyter);
  browser = await chromium.launch(launchOptions(flags.chromium));
  page = await openNotebook();
  await step("a cell prints and shows its last value", async () => {
    const out = await run('import "fmt"\nx := 20\nfmt.Println("hello")\nx + 1');
    expect(out, /hello/);
    expect(out, /21/);
  });
  await step("values live on in later cells", async () => expect(await run("x *= 2\nx"), /40/));
  await step("a pop-up offers completions", async () => {
    await type("fmt.Sprintl");
    await page.keyboard.press("Tab");
    await page.waitForFunction(() => document.querySelector(".jp-Completer:not(.lm-mod-hidden)")
      || /Sprintln/.test(document.querySelector(".jp-Notebook .jp-mod-active .cm-content, .jp-Notebook .jp-Cell.jp-mod-active .cm-content")?.innerText ?? ""),
    undefined, { timeout: stepLimit }); // one match only is put in at once
    await clear();
    await type("fmt.Sprint");
    await page.keyboard.press("Tab");
    const popup = page.locator(".jp-Completer:not(.lm-mod-hidden)");
    await popup.waitFor({ timeout: stepLimit });
    expect(await popup.innerText(), /Sprintf[\s\S]*Sprintln/);
    await shoot("completion");
    await page.keyboard.press("Escape");
    await clear();
  });
  await step("Shift-Tab shows what a name is", async () => {
    await type("fmt.Println");
    await page.keyboard.press("Shift+Tab");
    const tip = page.locator(".jp-Tooltip");
    await page.waitForFunction(() => document.querySelector(".jp-Tooltip")?.innerText.trim(), undefined, { timeout: stepLimit });
    expect(await tip.innerText(), /func Println\(a \.\.\.(any|interface ?\{\})\)|Println func/);
    await shoot("tooltip");
    await page.keyboard.press("Escape");
    await clear();
  });
  await step("an error names the line of the cell", async () => {
    expect(await run("y := 1\ny + undefinedName"), /(cell\[\d+\]|Cell \d+):2|:2:/);
    await shoot("error");
  });
  await step("a panic names the line of the cell", async () => expect(await run('func boom() {\n\tpanic("no fuel")\n}\nboom()'), /no fuel[\s\S]*:2|:2[\s\S]*no fuel/));
  await step("rich output shows as a picture and as HTML", async () => {
    await run('Display(display.HTML("<b class=\'rooflab-rich\'>rich</b>"))');
    await page.locator(".jp-OutputArea .rooflab-rich").waitFor({ timeout: stepLimit });
    await run("import (\n\"image\"\n\"image/color\"\n)\nimg := image.NewRGBA(image.Rect(0, 0, 40, 40))\n"
      + "for i := 0; i < 40; i++ {\n\timg.Set(i, i, color.RGBA{200, 0, 0, 255})\n}\nimg");
    await page.locator(".jp-OutputArea img").last().waitFor({ timeout: stepLimit });
    const width = await page.locator(".jp-OutputArea img").last().evaluate(img => img.decode().then(() => img.naturalWidth, () => 0));
    if (width !== 40) throw new Error(`the picture is ${width} pixels wide`);
  });
  await step("an interrupt stops an endless loop and keeps values", async () => {
    const done = start("for {\n}");
    await pause(1000);
    const from = Date.now();
    await command("notebook:interrupt-kernel");
    expect(await done(), /[Ii]nterrupt/);
    console.log(`       (${Date.now() - from} ms from the click to the end of the cell)`);
    expect(await run("x"), /40/);
  });
  await step("a restart forgets values and the kernel goes on", async () => {
    await page.evaluate(() => {
      window.rooflabRestarted = false;
      window.jupyterapp.commands.execute("notebook:restart-kernel").then(() => { window.rooflabRestarted = true; });
    });
    await page.locator(".jp-Dialog .jp-mod-accept").click();
    await page.waitForFunction(() => window.rooflabRestarted, undefined, { timeout: stepLimit });
    await idle();
    expect(await run("x"), /undefined|not declared|undeclared/);
    expect(await run("40 + 2"), /42/);
  });
  await shoot("hands");
} catch (err) {
  console.error(err.message);
  console.error(lab?.said().split("\n").slice(-30).join("\n") ?? "");
  await page?.screenshot({ path: join(flags.out, "hands-failed.png") }).catch(() => {});
  process.exitCode = 1;
} finally {
  await browser?.close();
  await lab?.stop();
  rmSync(work, { recursive: true, force: true });
}

async function step(name, does) {
  try {
    await does();
    console.log(`ok   ${name}`);
  } catch (err) {
    throw new Error(`FAIL ${name}\n     ${err.message}`);
  }
}

function expect(text, pattern) {
  if (!pattern.test(text)) throw new Error(`want ${pattern}, got: ${text.slice(0, 2000) || "(nothing)"}`);
}

// openNotebook opens a notebook with one empty cell on the kernel.
async function openNotebook() {
  writeFileSync(join(lab.dir, "hands.ipynb"), JSON.stringify({
    cells: [{ cell_type: "code", id: "first", metadata: {}, source: [], outputs: [], execution_count: null }],
    metadata: { kernelspec: { name: flags.kernel, display_name: flags.kernel, language: "go" } }, nbformat: 4, nbformat_minor: 5,
  }));
  const page = await browser.newPage({ viewport: { width: 1100, height: 900 } });
  page.on("pageerror", err => { console.error(`error in the page: ${err.message}`); process.exitCode = 1; });
  await page.goto(`${lab.url}/lab/tree/hands.ipynb?reset`, { timeout: startLimit });
  await idle(page);
  await page.locator(".jp-Notebook .jp-CodeCell .cm-content").first().click();
  return page;
}

async function idle(p = page) {
  await p.waitForFunction(() => document.querySelector(".jp-Dialog")
    || window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === "idle", undefined, { timeout: startLimit });
  const dialogs = await p.locator(".jp-Dialog").allInnerTexts();
  if (dialogs.length) throw new Error(`dialog: ${dialogs.join(" ")}`);
}

function command(name) { return page.evaluate(c => { window.jupyterapp.commands.execute(c); }, name); }

// type puts text into the last cell with real key presses, without the editor's own closing of brackets.
async function type(text) {
  await page.locator(".jp-Notebook .jp-CodeCell .cm-content").last().click();
  for (const key of text) await page.keyboard.press(key);
}

async function clear() {
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
}

// start runs text in the last cell and returns a function that waits for its end and gives what the cell shows.
async function fill(text) {
  await page.evaluate(source => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.activeCellIndex = content.widgets.length - 1;
    content.activeCell.model.sharedModel.setSource(source);
  }, text);
}

function start(text) {
  const begun = fill(text).then(() => page.evaluate(() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    window.rooflabCell = content.activeCell;
    window.rooflabDone = false;
    window.jupyterapp.commands.execute("notebook:run-cell-and-insert-below").then(() => { window.rooflabDone = true; });
  }));
  return async () => {
    await begun;
    await page.waitForFunction(() => window.rooflabDone || document.querySelector(".jp-Dialog"), undefined, { timeout: stepLimit });
    await idle();
    await pause(100); // the last output is drawn
    return page.evaluate(() => window.rooflabCell.node.querySelector(".jp-Cell-outputWrapper")?.innerText ?? "");
  };
}

function run(text) { return start(text)(); }

function shoot(name) { return page.screenshot({ path: join(flags.out, `hands-${name}.png`) }); }
