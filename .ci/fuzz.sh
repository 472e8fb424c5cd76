#!/bin/sh
# Runs the fuzz targets below a folder (default: all) for the given time, one after another: fuzz.sh [TIME [FOLDER]]
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for f in $(git ls-files "${2:-.}" | grep '_test\.go$'); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$f"); do
		echo "== ./$(dirname "$f") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-20s}" -fuzzminimizetime 10x "./$(dirname "$f")" >"$log" 2>&1 || {
			# The go command sometimes ends a run at its time limit with this error and no input that fails.
			if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
				continue
			fi
			cat "$log"
			exit 1
		}
		tail -n 3 "$log" | head -n 1
	done
done
