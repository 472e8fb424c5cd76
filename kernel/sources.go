package kernel

import "embed"

// Sources are what the compiled engine builds on the user's machine: the worker and the packages that are linked into
// cells.
//
//go:embed display dl eval proto rt worker
var Sources embed.FS

// papermillFiles let papermill write parameters in Go; the kernelspec's folder has a copy.
//
//go:embed papermill
var papermillFiles embed.FS
