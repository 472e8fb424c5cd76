package campaign

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/data"
)

// keepAnswers keeps what a live server says before its first round under the names that a replay reads, so that the
// campaign can be repeated without the server. What is there already, such as a recording made by hand, stays.
func (s *Session) keepAnswers(ctx context.Context, before metrics.Scrape) error {
	if s.about != nil {
		return nil
	}
	models, err := s.client.Answer(ctx, "/v1/models")
	if err != nil {
		return err
	}
	version, err := s.versionAnswer(ctx)
	if err != nil {
		return err
	}
	for _, a := range []struct{ name, text string }{
		{"metrics_before.txt", before.Text()}, {"get_v1_models.json", string(models)}, {"get_version.json", string(version)},
	} {
		name := filepath.Join(s.dir, "runs", s.run, a.name)
		if exists(name) {
			continue
		}
		if err := writeFile(name, strings.NewReader(s.withoutHosts(a.text))); err != nil {
			return err
		}
	}
	return nil
}

// withoutHosts puts "host" in place of the names of this machine and of the server's.
func (s *Session) withoutHosts(text string) string {
	here, _ := os.Hostname()
	there := ""
	if u, err := url.Parse(s.client.Target()); err == nil {
		there = u.Hostname()
	}
	for _, host := range slices.Concat([]string{there, here}, s.host.Machines(), s.itself) {
		text = replaceHost(text, host)
	}
	return text
}

// withoutPlaces is withoutHosts for how a server was started: command lines and variables also name other machines, and
// people by their folders. Paths stay, because whoever repeats the campaign needs to know what was given.
func (s *Session) withoutPlaces(text string) string {
	text = remote.ReplaceAllStringFunc(s.withoutHosts(text), func(found string) string {
		at := remote.FindStringSubmatch(found)
		if name := strings.Trim(at[2], "[]"); anyMachine(name) {
			return found
		}
		return at[1] + "host"
	})
	text = address.ReplaceAllStringFunc(text, func(found string) string {
		if ip := net.ParseIP(strings.Trim(found, "[]")); ip == nil || anyMachine(ip.String()) {
			return found
		}
		return "host"
	})
	return home.ReplaceAllString(text, "$1/user")
}

var (
	remote  = regexp.MustCompile(`((?:https?|grpcs?|tcp|rediss?|nats|zmq|wss?|ssh|[a-z]+ql)://(?:\*\*\*@)?)(\[[^\]\s]+\]|[^\s/:?#"',\]]+)`)
	address = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b|\[[0-9a-fA-F:]+\]`)
	home    = regexp.MustCompile(`(/home|/Users)/[^/\s"',:]+`)
)

// anyMachine reports whether a name or address means no certain machine: a loopback, or every interface.
func anyMachine(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// replaceHost replaces a host's name with its domain, and no word that only begins or ends like it.
func replaceHost(text, host string) string {
	switch strings.ToLower(host) {
	case "", "vllm", "sglang", "root": // called like words of our texts, they give nothing away
		return text
	}
	if anyMachine(host) {
		return text
	}
	re := regexp.MustCompile(`(?i)(^|[^\w.-])` + regexp.QuoteMeta(host) + `(?:\.[\w-]+)*($|[^\w.-])`)
	for range 2 { // neighbours share the character between them
		text = re.ReplaceAllString(text, "${1}host${2}")
	}
	return text
}

// neutral takes names out of how a server was started.
func (s *Session) neutral(e data.Environment) data.Environment {
	args := []string{}
	for _, a := range e.Args {
		args = append(args, s.withoutPlaces(a))
	}
	env := map[string]string{}
	for name, value := range e.Env {
		env[name] = s.withoutPlaces(value)
	}
	e.Args, e.Env = args, env
	return e
}
