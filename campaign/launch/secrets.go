package launch

import (
	"strings"
)

// IsSecret reports whether a variable or option holds a secret: one of its words is TOKEN, KEY, SECRET or PASSWORD.
// Words are split at _ and -, so TIKTOKEN_ENCODINGS_BASE and --max-num-batched-tokens are none.
func IsSecret(name string) bool {
	for _, word := range strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' }) {
		switch word {
		case "TOKEN", "KEY", "SECRET", "PASSWORD":
			return true
		}
	}
	return false
}

// mask removes secrets from the server: values of secret variables and options, and copies of them anywhere else.
func (s *Server) mask() {
	secrets := map[string]bool{}
	for i, v := range s.Env {
		if IsSecret(v.Name) && !v.Unknown {
			secrets[v.Value] = true
			s.Env[i].Value = Mask
		}
	}
	s.Argv = append([]string(nil), s.Argv...)
	for i, word := range s.Argv {
		name, value, inline := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "-") || !IsSecret(name) {
			continue
		}
		if inline {
			secrets[value] = true
			s.Argv[i] = name + "=" + Mask
			continue
		}
		for j := i + 1; j < len(s.Argv) && !strings.HasPrefix(s.Argv[j], "-"); j++ {
			secrets[s.Argv[j]] = true
			s.Argv[j] = Mask
		}
	}
	collect(s.Args, secrets)
	clean := func(text string) string {
		for secret := range secrets {
			if len(secret) >= 6 { // shorter ones would hit innocent words
				text = strings.ReplaceAll(text, secret, Mask)
			}
		}
		return text
	}
	for i := range s.Argv {
		s.Argv[i] = clean(s.Argv[i])
	}
	for i := range s.Env {
		s.Env[i].Value = clean(s.Env[i].Value)
	}
	for name, v := range s.Args {
		if IsSecret(name) {
			s.Args[name] = Mask
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
func collect(v interface{}, secrets map[string]bool) {
	switch x := v.(type) {
	case []interface{}:
		for _, it := range x {
			collect(it, secrets)
		}
	case map[string]interface{}:
		for k, it := range x {
			if text, ok := it.(string); ok && IsSecret(k) {
				secrets[text] = true
			}
			collect(it, secrets)
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
			if IsSecret(k) {
				x[k] = Mask
			} else {
				x[k] = cleanValue(x[k], clean)
			}
		}
	}
	return v
}
