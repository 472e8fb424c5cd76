// Package target reaches the machine that a server runs on: this one, or one behind the user's own ssh, docker, podman or
// kubectl, also one inside the other. It lists, reads, hashes and measures files there, runs programs, and finds the
// server's process.
//
// The far side needs a POSIX shell with coreutils or busybox and nothing of ours. Words stay words: they are never joined
// into a line of a shell without quoting. Programs are started without a terminal and without input, so nothing can ask for
// a password. It does not install, change or restart anything there, and it knows nothing about traces or HTTP.
package target

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Host is where the server runs. The zero value is this machine.
type Host struct {
	hops []hop // outermost first
}

// hop is one program that leads further: ssh to a machine, docker, podman or kubectl into a container.
type hop struct {
	kind      string // "ssh", "docker", "podman", "kubectl"
	name      string // machine, container, pod
	port      string // of ssh, "" for its default
	namespace string // of kubectl
	container string // of kubectl, "" for the pod's default
}

// Forms is how a host is written, for help texts.
const Forms = "local, ssh:USER@NODE[:PORT], docker:NAME, podman:NAME, kubectl:NAMESPACE/POD[/CONTAINER], joined with + as in ssh:node+docker:vllm"

// Parse reads a host as Forms has it; "" is this machine.
func Parse(spec string) (Host, error) {
	var h Host
	if spec == "" || spec == "local" {
		return h, nil
	}
	for _, part := range strings.Split(spec, "+") {
		p, err := parseHop(strings.TrimSpace(part))
		if err != nil {
			return Host{}, fmt.Errorf("read host %q: %w; a host is %s", spec, err, Forms)
		}
		h.hops = append(h.hops, p)
	}
	return h, nil
}

// FromEnv reads the host from spec, else from $ROOFLAB_HOST.
func FromEnv(spec string) (Host, error) {
	if spec == "" {
		spec = os.Getenv("ROOFLAB_HOST")
	}
	return Parse(spec)
}

// plainName is what machines, containers, namespaces and pods are called. A leading - would be read as an option.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func parseHop(part string) (hop, error) {
	kind, rest, ok := strings.Cut(part, ":")
	if !ok || rest == "" {
		return hop{}, fmt.Errorf("%q has no KIND:NAME", part)
	}
	p := hop{kind: kind, name: rest}
	names := []string{}
	switch kind {
	case "ssh":
		return parseSSH(rest)
	case "docker", "podman":
		names = append(names, rest)
	case "kubectl":
		words := strings.Split(rest, "/")
		if len(words) < 2 || len(words) > 3 {
			return hop{}, fmt.Errorf("%q is not kubectl:NAMESPACE/POD or kubectl:NAMESPACE/POD/CONTAINER", part)
		}
		p.namespace, p.name = words[0], words[1]
		if len(words) == 3 {
			p.container = words[2]
		}
		names = append(names, words...)
	default:
		return hop{}, fmt.Errorf("%q is no way to reach a machine", kind)
	}
	for _, n := range names {
		if !plainName.MatchString(n) {
			return hop{}, fmt.Errorf("%q is no name for %s", n, kind)
		}
	}
	return p, nil
}

// parseSSH reads USER@NODE[:PORT]; an IPv6 address with a port stands in brackets.
func parseSSH(rest string) (hop, error) {
	p := hop{kind: "ssh", name: rest}
	user, node := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, node = rest[:at+1], rest[at+1:]
	}
	if host, port, err := net.SplitHostPort(node); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return hop{}, fmt.Errorf("%q is no port", port)
		}
		p.port, node = port, host
	}
	node = strings.TrimSuffix(strings.TrimPrefix(node, "["), "]")
	p.name = user + node
	if user != "" && !plainName.MatchString(strings.TrimSuffix(user, "@")) {
		return hop{}, fmt.Errorf("%q is no user name", strings.TrimSuffix(user, "@"))
	}
	if ip, _, _ := strings.Cut(node, "%"); net.ParseIP(ip) == nil && !plainName.MatchString(node) || strings.ContainsAny(node, " '\"") {
		return hop{}, fmt.Errorf("%q is no machine", node)
	}
	return p, nil
}

// String returns the host as Parse reads it; "local" for this machine.
func (h Host) String() string {
	if h.Local() {
		return "local"
	}
	var parts []string
	for _, p := range h.hops {
		text := p.kind + ":"
		switch {
		case p.kind == "kubectl":
			text += p.namespace + "/" + p.name
			if p.container != "" {
				text += "/" + p.container
			}
		case p.port != "":
			user, node := "", p.name
			if at := strings.LastIndexByte(node, '@'); at >= 0 {
				user, node = node[:at+1], node[at+1:]
			}
			text += user + net.JoinHostPort(node, p.port)
		default:
			text += p.name
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "+")
}

// Names returns what the machines, users, containers, namespaces and pods on the way are called: what a published text leaves out.
func (h Host) Names() []string {
	var names []string
	for _, p := range h.hops {
		user, _, _ := strings.Cut(p.name, "@")
		for _, n := range []string{p.name, p.node(), user, p.namespace, p.container} {
			if n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

// Machines returns what the machines and pods on the way are called; a pod's name is its host name.
func (h Host) Machines() []string {
	var names []string
	for _, p := range h.hops {
		switch p.kind {
		case "ssh":
			names = append(names, p.node())
		case "kubectl":
			names = append(names, p.name)
		}
	}
	return names
}

// Local reports whether the host is this machine.
func (h Host) Local() bool { return len(h.hops) == 0 }

// Words returns the whole command that is executed here to run argv there.
func (h Host) Words(argv ...string) []string {
	words := append([]string(nil), argv...)
	for i := len(h.hops) - 1; i >= 0; i-- {
		words = h.hops[i].words(words)
	}
	return words
}

// connectSeconds is how long ssh waits for a machine; it answers within a second or not at all.
const connectSeconds = "10"

func (p hop) words(argv []string) []string {
	switch p.kind {
	case "ssh":
		words := []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" + connectSeconds, "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"}
		if p.port != "" {
			words = append(words, "-p", p.port)
		}
		return append(words, "--", p.name, Quote(argv...)) // the login shell over there takes the line apart again
	case "kubectl":
		words := []string{"kubectl", "exec", "--namespace", p.namespace, p.name}
		if p.container != "" {
			words = append(words, "--container", p.container)
		}
		return append(append(words, "--"), argv...)
	}
	return append([]string{p.kind, "exec", p.name}, argv...)
}

// Quote joins words into one line that a shell takes apart into the same words. POSIX shells, fish and csh agree on what
// it uses: quotes and backslashes stand outside of quotes, everything else that is special inside of single quotes.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

func quote(word string) string {
	if word == "" {
		return "''"
	}
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:@%+="
	if strings.Trim(word, safe) == "" && !strings.Contains(word, "=") {
		return word // an = in the first word would be an assignment
	}
	var b strings.Builder
	open := false
	for i := 0; i < len(word); i++ {
		c := word[i]
		outside := c == '\'' || c == '\\' || c == '!'
		if outside == open {
			b.WriteByte('\'')
			open = !open
		}
		if outside {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	if open {
		b.WriteByte('\'')
	}
	return b.String()
}

var errNUL = errors.New("a word of a command holds a NUL byte")
