// Package kernel installs and checks the Go kernel for Jupyter: it builds an engine from the sources of a rooflab
// checkout, writes the kernelspec that Jupyter starts it by, and finds out why a kernel does not work.
//
// The only engine is gophernotes, an interpreter. It is built from the module cache, unchanged, with one file added:
// the bindings through which cells call rooflab's packages (see internal/bindgen).
//
// Package kernel knows nothing about profiling, and it does not run notebooks: notebooks/nbclient does.
package kernel
