#!/bin/sh
# Fills assets/dist with the JavaScript that package-lock.json pins (by hash). Run by `make assets`.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null 2>&1; then
	echo "assets: npm was not found; it is needed once, to fetch ECharts." >&2
	echo "  Debian, Ubuntu: apt-get install npm" >&2
	echo "  Without it 'go build .' still works; only figures of kind \"echarts\" and the interactive view are missing." >&2
	exit 1
fi
echo "assets: npm ci (echarts, pinned in assets/package-lock.json)"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
for f in dist/echarts.min.js LICENSE NOTICE; do
	if [ ! -f "node_modules/echarts/$f" ]; then
		echo "assets: node_modules/echarts/$f is missing from the package" >&2
		exit 1
	fi
done
cp node_modules/echarts/dist/echarts.min.js dist/echarts.min.js
cp node_modules/echarts/LICENSE dist/echarts.LICENSE
cp node_modules/echarts/NOTICE dist/echarts.NOTICE
echo "assets: wrote dist/echarts.min.js ($(wc -c <dist/echarts.min.js | tr -d ' ') bytes), dist/echarts.LICENSE, dist/echarts.NOTICE"
