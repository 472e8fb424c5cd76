package campaign

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
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
	for _, host := range []string{there, here} {
		text = replaceHost(text, host)
	}
	return text
}

// replaceHost replaces a host's name with its domain, and no word that only begins or ends like it.
func replaceHost(text, host string) string {
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return text
	}
	re := regexp.MustCompile(`(?i)(^|[^\w.-])` + regexp.QuoteMeta(host) + `(?:\.[\w-]+)*($|[^\w.-])`)
	for range 2 { // neighbours share the character between them
		text = re.ReplaceAllString(text, "${1}host${2}")
	}
	return text
}

// neutral is withoutHosts for how a server was started.
func (s *Session) neutral(e data.Environment) data.Environment {
	args := []string{}
	for _, a := range e.Args {
		args = append(args, s.withoutHosts(a))
	}
	env := map[string]string{}
	for name, value := range e.Env {
		env[name] = s.withoutHosts(value)
	}
	e.Args, e.Env = args, env
	return e
}
