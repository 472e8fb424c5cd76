// Package kernel installs and checks the Go kernel for Jupyter: it makes an engine ready, writes the kernelspec that
// Jupyter starts it by, and finds out why a kernel does not work.
//
// There are two engines. The compiled one (kernel/compiled) is the rooflab binary itself, with a worker process that is
// built from Sources by the user's Go. The other, gophernotes, is an interpreter for machines without a C linker. It is
// built from the module cache, its files unchanged, with two things of ours: a front that talks to Jupyter in place of
// gophernotes' main.go (internal/gophernotes and kernel/serve), and the bindings through which cells call rooflab's
// packages (internal/bindgen).
//
// Package kernel knows nothing about profiling, and it does not run notebooks: notebooks/nbclient does.
package kernel
