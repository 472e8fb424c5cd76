// Package compiled is the engine that compiles cells: package session turns a cell into Go source, package build makes
// a library of it, and a worker process loads that and runs it. Variables, pointers, goroutines and open
// connections live in the worker from cell to cell.
//
// The worker may die: a library may call os.Exit, the runtime may stop it. The engine then says what was lost, starts
// another and goes on.
//
// It does not speak Jupyter's protocol; package serve does.
package compiled
