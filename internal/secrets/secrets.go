// Package secrets finds tokens, keys and passwords in names and texts and masks them, before anything is shown or written.
package secrets

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Mask stands for the value of a secret.
const Mask = "***"

// Name reports whether a variable or option of this name holds a secret: one of its words is TOKEN, KEY, DSN or their like, or its
// last one PASS or PWD. Words are whole, so MAX_NUM_BATCHED_TOKENS, BYPASS, pass_config and the shell's own PWD are none.
// Neither are the tokens and keys of a model, such as eos_token_id and num_key_value_heads.
func Name(name string) bool {
	words := strings.FieldsFunc(humps.ReplaceAllString(name, "${1}_$2"), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		last := i == len(words)-1
		if !last && ofModel.MatchString(word+"_"+words[i+1]) {
			continue
		}
		switch strings.ToUpper(word) {
		case "TOKEN", "KEY", "APIKEY", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PGPASSWORD", "PASSWD", "PASSPHRASE", "PGPASS", "PAT",
			"CRED", "CREDS", "CREDENTIAL", "CREDENTIALS", "DSN", "AUTH", "AUTHORIZATION", "COOKIE", "SIG", "SIGNATURE":
			return true
		case "PASS", "KEYS":
			if last {
				return true
			}
		case "PWD":
			if last && i > 0 {
				return true
			}
		}
	}
	return false
}

var (
	humps   = regexp.MustCompile(`([a-z0-9])([A-Z])`) // of camelCase
	ofModel = regexp.MustCompile(`(?i)^(token_(ids?|index|type)|key_(value|heads?|dim))$`)
)

// secretForms are what keys and tokens of well-known services look like, whatever the name of their variable. Each has
// parts in lower case without which it cannot occur, so that most texts need no regular expression.
var secretForms = []struct {
	what  string
	parts []string
	re    *regexp.Regexp
}{
	{"a Hugging Face token", []string{"hf_"}, regexp.MustCompile(`\bhf_[A-Za-z0-9]{16,}`)},
	{"an API key", []string{"sk-"}, regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`)},
	{"an NVIDIA API key", []string{"nvapi-"}, regexp.MustCompile(`\bnvapi-[A-Za-z0-9_-]{16,}`)},
	{"a GitHub token", []string{"ghp_", "gho_", "ghs_", "github_pat_"}, regexp.MustCompile(`\b(gh[ops]|github_pat)_[A-Za-z0-9_]{16,}`)},
	{"a GitLab token", []string{"glpat-"}, regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{16,}`)},
	{"an AWS key", []string{"akia", "asia"}, regexp.MustCompile(`\bA[KS]IA[0-9A-Z]{16}\b`)},
	{"a JSON web token", []string{"eyj"}, regexp.MustCompile(`\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*`)},
	{"a private key", []string{"private key-----"}, regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*`)},
	{"an authorization header", []string{"bearer"}, regexp.MustCompile(`(?i)authorization["']?\s*[:=]\s*["']?bearer\s+[A-Za-z0-9._~+/-]{8,}`)},
}

// Find says what secret of a known form a text holds and where, "" without.
func Find(text []byte) (what string, at int) {
	lower := bytes.ToLower(text)
	for _, form := range secretForms {
		if !slices.ContainsFunc(form.parts, func(part string) bool { return bytes.Contains(lower, []byte(part)) }) {
			continue
		}
		if found := form.re.FindIndex(text); found != nil {
			return form.what, found[0]
		}
	}
	return "", 0
}

// Secrets inside a value whose name says nothing: in addresses, headers, and name-value pairs such as JSON or a query.
var (
	userinfo = regexp.MustCompile(`://[^/?#\s"']+@`)
	login    = regexp.MustCompile(`(^|[\s"'=,;(])[\w.+%-]*:[^\s"'/]+@([\w.\[(-]+)`) // user:password@host without a scheme
	header   = regexp.MustCompile(`(?i)(authorization\\?["']?\s*[:=]\s*\\?["']?)[^"'\\\s,][^"'\\\n,]*`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]+`)
	named    = regexp.MustCompile(`([A-Za-z][\w-]*)(\\?["']?[ \t]*[=:][ \t]*)(` + quoted + `|[^\s"'&,;}\]]+)`)
	option   = regexp.MustCompile(`(--[A-Za-z][\w.-]*)( +)(` + quoted + `|[^\s"'-][^\s"']*)`)
)

const quoted = `\\"[^"\\]*(?:\\")?|"(?:[^"\\]|\\.)*"?|'[^']*'?` // the quotes of JSON in JSON are escaped; the last one may be cut off

// Clean masks the secrets within a text: in addresses, headers, name-value pairs, and keys of known forms.
func Clean(text string) string {
	text = userinfo.ReplaceAllString(text, "://"+Mask+"@")
	text = replace(login, text, func(part []string) string {
		if part[2] == "sha256" { // image:tag@sha256:...
			return part[0]
		}
		return part[1] + Mask + "@" + part[2]
	})
	text = header.ReplaceAllString(text, "${1}"+Mask)
	text = bearer.ReplaceAllString(text, "$1 "+Mask)
	text = cleanPairs(option, cleanPairs(named, text))
	for _, form := range secretForms {
		text = form.re.ReplaceAllString(text, Mask)
	}
	return text
}

// cleanPairs masks the values of secret names, also of those inside another's value.
func cleanPairs(pairs *regexp.Regexp, text string) string {
	return replace(pairs, text, func(part []string) string {
		name, between, value := part[1], part[2], part[3]
		if !Name(name) || strings.HasPrefix(value, "//") { // an address
			return name + between + cleanPairs(pairs, value)
		}
		quote := value[:len(value)-len(strings.TrimLeft(value, `\"'`))]
		return name + between + quote + Mask + quote
	})
}

// replace puts what with makes of a match and its groups in the place of each match.
func replace(re *regexp.Regexp, text string, with func(part []string) string) string {
	return re.ReplaceAllStringFunc(text, func(found string) string { return with(re.FindStringSubmatch(found)) })
}
