package launch

import (
	"strings"

	"github.com/rooflab/rooflab/internal/secrets"
)

// mask removes secrets from the server: values of secret variables and options, and copies of them anywhere else.
func (s *Server) mask() {
	found := map[string]bool{}
	for i, v := range s.Env {
		if secrets.Name(v.Name) && !v.Unknown {
			found[v.Value] = true
			s.Env[i].Value = secrets.Mask
		}
	}
	s.Argv = append([]string(nil), s.Argv...)
	for i, word := range s.Argv {
		name, value, inline := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "-") || !secrets.Name(name) && !secrets.Name(s.longName(name)) {
			continue
		}
		if inline {
			found[value] = true
			s.Argv[i] = name + "=" + secrets.Mask
			continue
		}
		for j := i + 1; j < len(s.Argv) && !strings.HasPrefix(s.Argv[j], "-"); j++ {
			found[s.Argv[j]] = true
			s.Argv[j] = secrets.Mask
		}
	}
	collect(s.Args, found)
	clean := func(text string) string {
		for secret := range found {
			if len(secret) >= 6 { // shorter ones would hit innocent words
				text = strings.ReplaceAll(text, secret, secrets.Mask)
			}
		}
		return secrets.Clean(text)
	}
	for i := range s.Argv {
		s.Argv[i] = clean(s.Argv[i])
	}
	for i := range s.Env {
		s.Env[i].Value = clean(s.Env[i].Value)
	}
	for name, v := range s.Args {
		if secrets.Name(name) {
			s.Args[name] = secrets.Mask
			continue
		}
		s.Args[name] = cleanValue(v, clean)
	}
	s.Model, s.Refused = clean(s.Model), clean(s.Refused)
	for i := range s.Diagnostics {
		s.Diagnostics[i].Text = clean(s.Diagnostics[i].Text)
	}
}

// collect finds secrets inside JSON values.
func collect(v interface{}, found map[string]bool) {
	switch x := v.(type) {
	case []interface{}:
		for _, it := range x {
			collect(it, found)
		}
	case map[string]interface{}:
		for k, it := range x {
			if secrets.Name(k) {
				gather(it, found)
			}
			collect(it, found)
		}
	}
}

// gather keeps every text within a value.
func gather(v interface{}, keep map[string]bool) {
	switch x := v.(type) {
	case string:
		keep[x] = true
	case []interface{}:
		for _, it := range x {
			gather(it, keep)
		}
	case map[string]interface{}:
		for _, it := range x {
			gather(it, keep)
		}
	}
}

func cleanValue(v interface{}, clean func(string) string) interface{} {
	switch x := v.(type) {
	case string:
		return clean(x)
	case []interface{}:
		for i := range x {
			x[i] = cleanValue(x[i], clean)
		}
	case map[string]interface{}:
		for k := range x {
			if secrets.Name(k) {
				x[k] = secrets.Mask
			} else {
				x[k] = cleanValue(x[k], clean)
			}
		}
	}
	return v
}
