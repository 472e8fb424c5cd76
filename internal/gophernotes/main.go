//go:build gophernotes

// Package main is rooflab's front of the gophernotes interpreter. `rooflab kernel install` compiles these files
// together with gophernotes' own, all but its main.go, and with the bindings that bindgen writes; the build tag keeps
// them out of every other build.
//
// gophernotes evaluates and renders; package kernel/serve talks to Jupyter in place of gophernotes' own message
// loop, which leaves several requests without an answer and dies of others. Nothing here knows about profiling,
// except that a chart gets its picture.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rooflab/rooflab/kernel/serve"
)

// Version and ProtocolVersion are what gophernotes' main.go defines and its message loop, not used here, refers to.
const (
	Version         = "0.7.5"
	ProtocolVersion = "5.3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rooflab-gophernotes CONNECTION_FILE (Jupyter starts it; see rooflab kernel install)")
		os.Exit(2)
	}
	bindInterruptible()
	bindExits()
	repairProxies()
	renderTexts()
	drawCharts()
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rooflab-gophernotes:", err)
		os.Exit(1)
	}
}

func run(connectionFile string) error {
	server, err := serve.Listen(connectionFile)
	if err != nil {
		return err
	}
	stdio, err := serve.CaptureStdio()
	if err != nil {
		return err
	}
	server.Serve(info, func(context.Context) (serve.Engine, error) { return newEngine(stdio), nil })
	return nil
}
