// Package nbclient runs a notebook without a browser on any installed Jupyter kernel, over the Jupyter protocol.
//
// It starts the kernel in a process group of its own, runs the code cells in order, collects their outputs as JupyterLab
// would, and stores the notebook after every cell. An error of a cell, a time limit, a dead kernel and a cancelled
// context each end the run with a typed error; the file on disk then holds all that was executed.
//
// The stored notebook depends on the sources and on what the kernel printed, not on when or how fast it ran: neighbouring
// stream outputs are joined, and times are stored only when asked for, in cell metadata.
//
// It does not resume in the middle of a notebook: variables live in the kernel, and the kernel ends with the run. Resume
// skips a notebook that finished before and has not changed. It does not answer requests for input, keep widget state,
// or know anything about the meaning of a notebook.
package nbclient
