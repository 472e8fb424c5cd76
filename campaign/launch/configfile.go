package launch

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

// applyConfig does what both engines do with --config FILE: the options of the file are put right after the model and
// before the other options, so the command line wins. vLLM sees only the two-word form; see warnConfig.
func (r *reader) applyConfig(s *Server) error {
	at := slices.Index(s.Argv, "--config")
	if at < 0 || at+1 >= len(s.Argv) {
		return nil
	}
	file := s.Argv[at+1]
	if ext := path.Ext(file); ext != ".yaml" && ext != ".yml" && !strings.Contains(file, "<runtime:") {
		s.Refused = "the file of --config must end in .yaml or .yml: " + file
		return nil
	}
	if slices.Contains(s.Argv[at+1:], "--config") {
		s.Refused = "--config is given twice"
		return nil
	}
	raw, err := r.readFile(resolve(s.dir, file))
	if err != nil {
		r.note("config_file_absent", file, "the file of --config is not among the files; its options are not known")
		return nil
	}
	docs, err := yamlDocs(raw)
	if err != nil || len(docs) == 0 {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	s.config, s.configWords = file, configWords(docs[0], s.Engine)
	s.insertConfig(at)
	return nil
}

// insertConfig puts the options of the file, whose --config stands at a place, where the server puts them.
func (s *Server) insertConfig(at int) {
	rest := append(slices.Clone(s.Argv[:at]), s.Argv[at+2:]...)
	head := len(rest) - len((&Server{Argv: rest, Program: s.Program}).afterSubcommand())
	if head < len(rest) && !strings.HasPrefix(rest[head], "-") {
		head++ // the positional model
	}
	s.modelFromConfig = slices.Contains(s.configWords, "--model")
	s.Argv = slices.Concat(rest[:head], s.configWords, rest[head:])
}

// configWords turns the file into words: true is a switch, false --no-NAME where vLLM has one, lists several words,
// mappings JSON.
func configWords(d node, engine string) []string {
	var words []string
	for _, p := range d.pairs() {
		on, isBool := p.value.isBool()
		switch {
		case isBool && on:
			words = append(words, "--"+p.key)
		case isBool:
			if k, ok := vllmFlags[strings.ReplaceAll(p.key, "_", "-")]; engine == "vllm" && ok && k == toggle {
				words = append(words, "--no-"+p.key)
			}
		case p.value.isNull():
		case p.value.isList() && len(p.value.items()) == 0:
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
