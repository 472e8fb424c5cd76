// What the browser tests share: a JupyterLab of their own and the browser's options.

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

export const startLimit = 90_000; // JupyterLab and its first page, cold, on a busy machine

export function launchOptions(executablePath) {
  return {
    executablePath,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--no-first-run"],
  };
}

// startLab starts JupyterLab on a free port with settings of its own and waits until it answers.
export async function startLab(dir, jupyter) {
  const home = name => { const d = join(dir, name); mkdirSync(d, { recursive: true }); return d; };
  const settings = home("settings");
  const setting = (plugin, value) => {
    mkdirSync(join(settings, "@jupyterlab", plugin.split("/")[0]), { recursive: true });
    writeFileSync(join(settings, "@jupyterlab", plugin + ".jupyterlab-settings"), JSON.stringify(value));
  };
  setting("notebook-extension/tracker", { windowingMode: "none" }); // every cell is in the page, for the screenshot
  setting("apputils-extension/notification", { fetchNews: "false", checkForUpdates: false });

  const port = await freePort();
  const child = spawn(jupyter, [
    "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", `--port=${port}`, "--ServerApp.port_retries=0",
    "--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True", `--ServerApp.root_dir=${home("notebooks")}`,
  ], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env, JUPYTER_RUNTIME_DIR: home("runtime"), JUPYTER_CONFIG_DIR: home("config"),
      JUPYTERLAB_SETTINGS_DIR: settings, JUPYTERLAB_WORKSPACES_DIR: home("workspaces"),
    },
  });
  let said = "";
  let ended = false;
  child.stdout.on("data", text => { said += text; });
  child.stderr.on("data", text => { said += text; });
  const exit = new Promise(done => {
    child.on("exit", () => { ended = true; done(); });
    child.on("error", err => { said += err.message; ended = true; done(); });
  });
  const stop = async () => { child.kill("SIGTERM"); await Promise.race([exit, pause(5000)]); child.kill("SIGKILL"); };

  const url = `http://127.0.0.1:${port}`;
  for (const end = Date.now() + startLimit; ; await pause(200)) {
    if (ended) throw new Error(`JupyterLab did not start:\n${said}`);
    if (await fetch(`${url}/api/status`).then(r => r.ok, () => false)) return { url, stop, said: () => said, dir: join(dir, "notebooks") };
    if (Date.now() > end) {
      await stop();
      throw new Error(`JupyterLab does not answer:\n${said}`);
    }
  }
}

function freePort() {
  return new Promise(done => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

export function pause(ms) { return new Promise(done => setTimeout(done, ms)); }
