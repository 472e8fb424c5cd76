#!/bin/sh
# Checks that the named programs are there; names what is missing with the line that installs it.
missing=
for p in "$@"; do
	command -v "$p" >/dev/null 2>&1 || missing="$missing $p"
done
if [ -n "$missing" ]; then
	pkgs=
	for p in $missing; do
		case $p in
		go) echo "missing: go 1.26 or later. Debian's own is older; take it from https://go.dev/dl/" >&2 ;;
		python3) pkgs="$pkgs python3 python3-venv" ;;
		*) pkgs="$pkgs $p" ;;
		esac
	done
	[ -z "$pkgs" ] || echo "missing:$missing. Install with: apt-get install$pkgs" >&2
	exit 1
fi
case " $* " in *" go "*)
	v=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
	major=${v%%.*} rest=${v#*.} minor=${rest%%.*}
	if [ "$major" -eq 1 ] && [ "$minor" -lt 26 ]; then
		echo "go $v is too old: rooflab needs go 1.26 or later (https://go.dev/dl/)" >&2
		exit 1
	fi ;;
esac
