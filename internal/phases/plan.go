package phases

import (
	"encoding/json"
	"fmt"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
)

// Plan lists what a run with these options would send to a live server and run on its machine, phase by phase.
func Plan(o Options) ([]campaign.Step, campaign.PlanOptions, error) {
	todo, err := o.phases()
	if err != nil {
		return nil, campaign.PlanOptions{}, err
	}
	host, err := target.FromEnv(o.Host)
	if err != nil {
		return nil, campaign.PlanOptions{}, err
	}
	var steps []campaign.Step
	plan := campaign.PlanOptions{Host: host, TraceDir: o.TraceDir}
	for _, p := range todo {
		if p.Number == 1 {
			if err := o.parameters(p, &plan); err != nil {
				return nil, plan, err
			}
		}
		steps = append(steps, campaign.Plan(p.Number, plan)...)
	}
	return steps, plan, nil
}

// parameters puts the notebook's parameters into the plan: as given, else as its parameters cell has them.
func (o Options) parameters(p notebooks.Phase, plan *campaign.PlanOptions) error {
	nb, err := readNotebook(o.Dir, p)
	if err != nil {
		return err
	}
	values, err := nbclient.GoDefaults(nb)
	if err != nil {
		return err
	}
	given, err := declared(o.Dir, p, o.Params)
	if err != nil {
		return err
	}
	for _, v := range given {
		if values[v.Name] = v.Value; v.Name == "C" {
			values[v.Name] = v.List()
		}
	}
	for name, to := range map[string]any{"C": &plan.Loads, "inputTokens": &plan.InputTokens, "outputTokens": &plan.OutputTokens} {
		raw, err := json.Marshal(values[name])
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("the plan needs a number for the parameter %s of %s, it is %s", name, p.Notebook, raw)
		}
	}
	return nil
}
