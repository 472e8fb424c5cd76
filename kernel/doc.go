// Package kernel installs and checks the Go kernel for Jupyter: it builds an engine from the sources of a rooflab
// checkout, writes the kernelspec that Jupyter starts it by, and finds out why a kernel does not work.
//
// The only engine is gophernotes, an interpreter. It is built from the module cache, its files unchanged, with two
// things of ours: a front that talks to Jupyter in place of gophernotes' main.go (internal/gophernotes and
// kernel/serve), and the bindings through which cells call rooflab's packages (internal/bindgen).
//
// Package kernel knows nothing about profiling, and it does not run notebooks: notebooks/nbclient does.
package kernel
