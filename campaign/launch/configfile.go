package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

// applyConfig does what `vllm serve` does with --config FILE: the options of the file are put right after the model and
// before the other options, so the command line wins. Only the two-word form is seen; see warnConfig.
func (r *reader) applyConfig(s *Server) error {
	at := slices.Index(s.Argv, "--config")
	if s.Engine != "vllm" || at < 0 || at+1 >= len(s.Argv) {
		return nil
	}
	file := s.Argv[at+1]
	raw, err := r.readFile(resolve("", file))
	if err != nil {
		r.note("config_file_absent", file, "the file of --config is not among the files; its options are not known")
		return nil
	}
	docs, err := yamlDocs(raw)
	if err != nil || len(docs) == 0 {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	options := configWords(docs[0])
	rest := append(slices.Clone(s.Argv[:at]), s.Argv[at+2:]...)
	head := 0
	if len(rest) > 0 && rest[0] == "serve" {
		head = 1
	}
	if head < len(rest) && !strings.HasPrefix(rest[head], "-") {
		head++ // the positional model
	}
	s.Argv = slices.Concat(rest[:head], options, rest[head:])
	return nil
}

// configWords turns the file into words: true is a switch, false --no-NAME where there is one, lists several words,
// mappings JSON.
func configWords(d node) []string {
	var words []string
	for _, p := range d.pairs() {
		on, isBool := p.value.isBool()
		switch {
		case isBool && on:
			words = append(words, "--"+p.key)
		case isBool:
			if k, ok := vllmFlags[strings.ReplaceAll(p.key, "_", "-")]; ok && k == toggle {
				words = append(words, "--no-"+p.key)
			}
		case p.value.isNull():
		case p.value.isList():
			words = append(words, "--"+p.key)
			for _, it := range p.value.items() {
				if it.isMap() || it.isList() {
					words = append(words, it.json())
				} else {
					words = append(words, it.text())
				}
			}
		case p.value.isMap():
			words = append(words, "--"+p.key, p.value.json())
		default:
			words = append(words, "--"+p.key, p.value.text())
		}
	}
	return words
}

func (s *Server) warnConfig(file string) {
	s.Diagnostics = append(s.Diagnostics, diag.Diagnostic{ID: "config_file_ignored", Severity: diag.Warning, N: 1,
		Text: "--config=" + file + " is accepted, but vLLM never reads the file",
		Hint: "write --config " + file + " as two words"})
}
