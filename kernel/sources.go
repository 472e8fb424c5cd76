package kernel

import "embed"

// Sources are what the compiled engine builds on the user's machine: the worker and the packages that are linked into
// cells.
//
//go:embed display dl eval proto rt worker
var Sources embed.FS

// specFiles are copied into the kernelspec's folder: what lets papermill write parameters in Go, and the logo that front
// ends show.
//
//go:embed papermill logo-svg.svg logo-64x64.png
var specFiles embed.FS
