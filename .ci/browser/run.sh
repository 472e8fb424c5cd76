#!/bin/sh
# Browser tests: the Go kernel in JupyterLab. Needs what .ci/setup.sh installs and `make kernel` builds.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p _build/browser
cp .ci/browser/package.json .ci/browser/package-lock.json .ci/browser/*.mjs _build/browser/
want=$(cksum <.ci/browser/package-lock.json)
if [ "$(cat _build/browser/.installed 2>/dev/null || true)" != "$want" ]; then
	npm ci --prefix _build/browser --no-audit --no-fund --silent
	echo "$want" >_build/browser/.installed
fi

# The notebooks of a campaign run against the recorded one, in an empty campaign folder.
campaign=$(mktemp -d)
trap 'rm -rf "$campaign"' EXIT
_build/rooflab init "$campaign/demo" >/dev/null
export JUPYTER_PATH=${JUPYTER_PATH:-$PWD/_build/jupyter/share/jupyter}
ROOFLAB_CAMPAIGN=$campaign/demo ROOFLAB_TARGET=replay:$PWD/data/campaigns/h200x2-kimi-k2.5-int4 \
	node _build/browser/jupyterlab.mjs --jupyter _build/venv/bin/jupyter --out _build/browser/shots \
	.ci/browser/smoke.ipynb notebooks/*.ipynb "$@"

# And a person's hands: typing, completing, interrupting, restarting.
node _build/browser/hands.mjs --jupyter _build/venv/bin/jupyter --out _build/browser/shots
