#!/bin/sh
# The front ends of others run our notebooks: jupyter execute, nbclient (which it uses), papermill, nbconvert.
set -eu
cd "$(dirname "$0")/../.."
bin=$PWD/_build/venv/bin
export JUPYTER_PATH=${JUPYTER_PATH:-$PWD/_build/jupyter/share/jupyter}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
_build/rooflab init "$work/campaign" >/dev/null
export ROOFLAB_CAMPAIGN=$work/campaign ROOFLAB_TARGET=replay:$PWD/data/campaigns/h200x2-kimi-k2.5-int4

for notebook in notebooks/*.ipynb; do
	name=$(basename "$notebook")
	cp "$notebook" "$work/$name"
	"$bin/jupyter" execute --inplace "$work/$name" 2>"$work/log" || { cat "$work/log" >&2; echo "FAIL jupyter execute $name" >&2; exit 1; }
	echo "ok   jupyter execute $name"
done

"$bin/jupyter" nbconvert --log-level=WARN --to html --execute --output-dir "$work" notebooks/40-findings.ipynb
grep -q '<table' "$work/40-findings.html" || { echo "FAIL nbconvert: no table in the page" >&2; exit 1; }
echo "ok   jupyter nbconvert --execute 40-findings.ipynb"

PYTHONPATH=$JUPYTER_PATH/kernels/rooflab-go/papermill "$bin/papermill" --no-progress-bar --log-level WARNING \
	-p n 21 -p word 'h"é' .ci/browser/parameters.ipynb "$work/out.ipynb"
"$bin/python" - "$work/out.ipynb" <<'PY'
import json, sys
cells = json.load(open(sys.argv[1]))["cells"]
shown = "".join(out["data"]["text/plain"] if isinstance(out["data"]["text/plain"], str) else "".join(out["data"]["text/plain"])
                for out in cells[-1]["outputs"] if "data" in out)
if shown != '42 h"é':
    sys.exit("FAIL papermill: the last cell shows %r" % shown)
PY
echo "ok   papermill -p"
