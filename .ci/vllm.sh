#!/bin/sh
# Installs the two real vLLM servers that tests start, with ../shared/vllm/serve-cpu.sh, into _build/vllm-VERSION.
# What is installed already is left as it is. CI must have them; elsewhere what is in the way is said, and their tests skip.
set -eu
cd "$(dirname "$0")/.."
serve=${ROOFLAB_SHARED:-../shared}/vllm/serve-cpu.sh
versions="0.32.0 0.20.2"
need_mb=6500 # a version: 5.6 GB, and room for what is unpacked

without() {
	if [ "${CI:-}" = true ]; then
		echo "the tests of real servers need vLLM: $1" >&2
		exit 1
	fi
	echo "vLLM is not installed, tests that need it are skipped: $1"
	exit 0
}

installed() { # the stamp is the hash of the lock file that was installed
	[ -x "_build/vllm-$1/bin/vllm" ] &&
		[ "$(cat "_build/vllm-$1/.serve-cpu.lock.sha256" 2>/dev/null)" = "$(sha256sum <"${serve%.sh}-$1.lock" | cut -d' ' -f1)" ]
}

[ -f "$serve" ] || without "$serve is not there"
todo=
for v in $versions; do
	installed "$v" || todo="$todo $v"
done
[ -n "$todo" ] || exit 0

[ "$(uname -sm)" = "Linux x86_64" ] || without "its CPU build is for Linux on x86_64 only"
mkdir -p _build
set -- $todo
free_mb=$(df -Pm _build | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge $((need_mb * $#)) ] || without "it takes $((need_mb * $#)) MB of disk, _build has $free_mb MB free"

python=
for p in "${PYTHON:-}" python3.12 "$HOME"/.pyenv/versions/3.12.*/bin/python; do
	if [ -n "$p" ] && "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
		python=$p
		break
	fi
done
[ -n "$python" ] || without "it needs Python 3.12 with venv. Debian 12 has no package of it; install with: pyenv install 3.12, or: uv python install 3.12, and set PYTHON to its path"

if ! "$python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null; then
	[ "$(id -u)" -eq 0 ] || without "it needs libnuma. Install with: apt-get install libnuma1"
	echo "installing libnuma1"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libnuma1 >/dev/null
fi
for v in $todo; do
	echo "installing vLLM $v into _build/vllm-$v (5.6 GB, about a minute)"
	PYTHON=$python SERVE_VERSION=$v bash "$serve" install "_build/vllm-$v" ||
		without "its installation was not possible; see above"
done
