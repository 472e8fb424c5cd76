package campaign

const (
	baselineFile = "baseline.json"
	runFile      = "run.json"
)
