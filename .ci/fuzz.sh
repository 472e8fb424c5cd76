#!/bin/sh
# Runs every fuzz target of the module for the given time, one after another.
set -eu
cd "$(dirname "$0")/.."
for f in $(git ls-files '*_test.go'); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$f"); do
		echo "== ./$(dirname "$f") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-20s}" "./$(dirname "$f")"
	done
done
