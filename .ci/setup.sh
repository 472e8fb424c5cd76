#!/bin/sh
# Sets up what only the tests need: Chromium, Python with JupyterLab in _build/venv, gopls, and real vLLM servers.
set -eu
cd "$(dirname "$0")/.."
if ! command -v chromium >/dev/null 2>&1; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "the browser tests need Chromium. Install with: apt-get install chromium" >&2
		exit 1
	fi
	echo "installing chromium"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
fi
python=
for p in python3.12 python3.11 python3; do
	if command -v $p >/dev/null 2>&1 && $p -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
		python=$p
		break
	fi
done
if [ -z "$python" ]; then
	echo "the browser tests need Python 3.10 or later with venv. Install with: apt-get install python3 python3-venv" >&2
	exit 1
fi
want=$(cksum <.ci/browser/requirements.txt)
if [ "$(cat _build/venv/.rooflab 2>/dev/null || true)" != "$want" ]; then
	echo "installing JupyterLab into _build/venv"
	rm -rf _build/venv
	$python -m venv _build/venv
	_build/venv/bin/pip install --quiet --disable-pip-version-check -r .ci/browser/requirements.txt
	echo "$want" >_build/venv/.rooflab
fi
if [ "${CI:-}" = true ] && [ "$(id -u)" -eq 0 ]; then # elsewhere their tests skip: installing sshd starts it on some machines
	for p in openssh-server:/usr/sbin/sshd busybox:/bin/busybox; do
		[ -x "${p#*:}" ] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${p%:*}" >/dev/null; }
	done
fi
if [ ! -x _build/bin/gopls ]; then # of its own module: its dependencies are others than ours
	echo "installing gopls into _build/bin"
	GOBIN=$PWD/_build/bin GOFLAGS=-mod=mod go install golang.org/x/tools/gopls@v0.22.0
fi
sh .ci/vllm.sh
