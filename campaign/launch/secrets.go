package launch

import (
	"regexp"
	"strings"
)

// IsSecret reports whether a variable or option holds a secret: one of its words is TOKEN, KEY, SECRET, PASSWORD or their like.
// Words are split at _ and -, so TIKTOKEN_ENCODINGS_BASE and --max-num-batched-tokens are none.
func IsSecret(name string) bool {
	for _, word := range strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' }) {
		switch word {
		case "TOKEN", "KEY", "APIKEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
			"AUTH", "AUTHORIZATION", "COOKIE", "SIG", "SIGNATURE":
			return true
		}
	}
	return false
}

// Secrets inside a value whose name says nothing: in addresses, headers, and name-value pairs such as JSON or a query.
var (
	userinfo = regexp.MustCompile(`://[^/?#\s"']+@`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]+`)
	named    = regexp.MustCompile(`([A-Za-z][\w-]*)(\s*=\s*"?|"\s*:\s*"?|:\s+)([^\s"'?&,;}\]]+)`)
	option   = regexp.MustCompile(`(--[A-Za-z][\w-]*)( +)([^\s"'-][^\s"']*)`)
)

// cleanInside masks secrets within a text.
func cleanInside(text string) string {
	text = userinfo.ReplaceAllString(text, "://"+Mask+"@")
	text = bearer.ReplaceAllString(text, "$1 "+Mask)
	for _, re := range []*regexp.Regexp{named, option} {
		text = re.ReplaceAllStringFunc(text, func(found string) string {
			if part := re.FindStringSubmatch(found); IsSecret(part[1]) {
				return part[1] + part[2] + Mask
			}
			return found
		})
	}
	return text
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
		return cleanInside(text)
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
