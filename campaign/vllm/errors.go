package vllm

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// StatusError is an answer that says no.
type StatusError struct {
	Method, Path string
	Status       int
	Type         string // vLLM's error type, such as "NotFoundError"
	Message      string // vLLM's words, or the start of the body

	framework bool // the body is {"detail": ...}, as FastAPI's router writes it
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s %s: the server answered %d", e.Method, e.Path, e.Status)
	if e.Message != "" {
		s += ": " + e.Message
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		s += "; give the server's own API key in ROOFLAB_API_KEY or with --api-key-file"
	case e.Status == http.StatusProxyAuthRequired:
		s += "; put the proxy's user and password into HTTP_PROXY, or name the server in NO_PROXY"
	case e.Status == http.StatusBadRequest && plainOnHTTPS.MatchString(e.Message):
		s += "; give the target with https://"
	case e.Status/100 == 3:
		s += "; give the address that it is sent to as target"
	}
	return s
}

// fromVLLM tells a 404 of vLLM's router from one of a gateway.
func (e *StatusError) fromVLLM() bool { return e.Message == "Not Found" && e.framework }

// plainOnHTTPS matches what servers in Go, nginx and Apache say to plain HTTP on their HTTPS port.
var plainOnHTTPS = regexp.MustCompile(`(?i)HTTP request .*to an? HTTPS|plain HTTP .*HTTPS port|plain HTTP to an SSL`)

// explained is an error told in our words; callers still find what it was.
type explained struct {
	text string
	err  error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

// explain turns a network error into what happened and what to do. The address is shown without its scheme.
func (c *Client) explain(method, path string, err error) error {
	if text := c.unreachable(err); text != "" {
		return explained{text, err}
	}
	if text := c.distrusted(err); text != "" {
		return explained{text, err}
	}
	what, via := method+" "+path, ""
	if c.proxy != "" {
		via = " (through the proxy " + c.proxy + ")"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return explained{what + ": stopped", context.Canceled}
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return explained{what + ": no answer from " + c.host + via + " in time; is the server busy or still loading?", context.DeadlineExceeded}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if c.expectsTLS() {
			return explained{c.host + " speaks HTTPS, not plain HTTP; give the target as https://" + c.host, io.ErrUnexpectedEOF}
		}
		return explained{what + ": the server at " + c.host + via + " closed the connection in the middle; has it stopped?", io.ErrUnexpectedEOF}
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which may hold a port picked by the kernel
	}
	return fmt.Errorf("%s%s: %w", what, via, err)
}

// unreachable says why no connection was made; "" when one was.
func (c *Client) unreachable(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	found := errors.As(err, &op)
	switch {
	case errors.Is(err, context.Canceled):
	case found && op.Op == "proxyconnect" || found && op.Op == "dial" && c.proxy != "":
		return "the proxy " + c.proxy + " of HTTP_PROXY or HTTPS_PROXY does not answer: " + op.Err.Error() + "; NO_PROXY=" + hostname(c.host) + " goes around it"
	case errors.As(err, &dns) && !dns.IsNotFound:
		return "the name of " + c.host + " cannot be looked up now: " + dns.Err + "; is the network there?"
	case dns != nil:
		return "no server answers at " + c.host + ": the name is not known here; check the target"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server answers at " + c.host + ": connection refused; start it or give another target"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no way leads to " + c.host + " from here; check the target, or reach the server through a tunnel"
	case found && errors.Is(err, syscall.EINVAL) && strings.HasPrefix(strings.ToLower(c.host), "[fe80:"):
		return "the link-local address " + c.host + " needs a zone, such as [fe80::1%eth0]:8000"
	}
	return ""
}

// distrusted says why the connection is not the one that the target asks for; "" when it is.
func (c *Client) distrusted(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var wrong x509.HostnameError
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "the certificate of " + c.host + " is signed by an authority that is not trusted here; give the authority's certificate with --ca-file or ROOFLAB_CA_FILE"
	case errors.As(err, &wrong):
		return "the certificate of " + c.host + " is for " + names(wrong.Certificate) + "; give the target by such a name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate of %s is valid from %s to %s only; renew it on the server, or set the clock here right",
			c.host, invalid.Cert.NotBefore.UTC().Format(time.DateOnly), invalid.Cert.NotAfter.UTC().Format(time.DateOnly))
	case errors.As(err, &invalid):
		return "the certificate of " + c.host + " cannot be used: " + invalid.Error()
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return c.host + " speaks plain HTTP, not HTTPS; give the target as http://" + c.host
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert
		return c.host + " broke off the TLS handshake: " + op.Err.Error() + "; a server that wants a client's certificate is reached through a tunnel"
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // a TLS alert as the answer
		return c.host + " speaks HTTPS, not plain HTTP; give the target as https://" + c.host
	}
	return ""
}

// expectsTLS asks a server that closed a plain connection without a word, as Python's do, for a TLS handshake.
func (c *Client) expectsTLS() bool {
	if c.answered.Load() || c.proxy != "" || !strings.HasPrefix(c.base, "http://") {
		return false
	}
	host := c.host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host += ":80"
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 3 * time.Second}, "tcp", host, &tls.Config{InsecureSkipVerify: true}) // nothing is sent or believed
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// names lists whom a certificate is for.
func names(cert *x509.Certificate) string {
	words := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		words = append(words, ip.String())
	}
	if len(words) == 0 {
		return "no host"
	}
	return strings.Join(words, ", ")
}

func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

// statusError reads the error bodies of vLLM and SGLang: {"error":{...}}, {"error":"text"}, {"detail":"text"} or
// {"detail":[...]} of FastAPI, {"object":"error","message":...} of older versions.
func statusError(method, path string, status int, body []byte) *StatusError {
	e := &StatusError{Method: method, Path: path, Status: status}
	var form struct {
		Error, Detail         json.RawMessage
		Object, Message, Type string
	}
	if json.Unmarshal(body, &form) != nil {
		e.Message = firstLine(pageText(string(body)))
		return e
	}
	e.framework = form.Detail != nil
	var object struct{ Message, Type string }
	var text string
	var details []struct{ Msg string }
	switch {
	case json.Unmarshal(form.Error, &object) == nil:
		e.Message, e.Type = firstLine(object.Message), object.Type
	case json.Unmarshal(form.Error, &text) == nil, json.Unmarshal(form.Detail, &text) == nil:
		e.Message = firstLine(text)
	case json.Unmarshal(form.Detail, &details) == nil && len(details) > 0:
		e.Message = firstLine(details[0].Msg)
	case form.Message != "":
		e.Message, e.Type = firstLine(form.Message), form.Type
	default:
		e.Message = firstLine(string(body))
	}
	return e
}

// pageText is what a gateway's error page says: its title, or its text without a title. Other bodies stay as they are.
func pageText(body string) string {
	if !strings.HasPrefix(strings.TrimSpace(body), "<") {
		return body
	}
	text := pageSilent.ReplaceAllString(body, " ")
	if title := pageTitle.FindStringSubmatch(text); title != nil {
		text = title[1]
	}
	return cmp.Or(html.UnescapeString(strings.Join(strings.Fields(pageTag.ReplaceAllString(text, " ")), " ")), body)
}

var (
	pageTitle  = regexp.MustCompile(`(?is)<title[^>]*>\s*(\S.*?)</title`)
	pageSilent = regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)>|<!--.*?-->`)
	pageTag    = regexp.MustCompile(`<[^>]*>?`)
)

// firstLine keeps what is meant for people: validation errors go on with file paths of the server.
func firstLine(s string) string {
	s = strings.TrimSpace(s)
	if head, rest, ok := strings.Cut(s, "\n"); ok {
		if s = head; strings.HasSuffix(head, ":") { // "1 validation error:", the next line says which
			next, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
			s += " " + next
		}
	}
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "..."
	}
	return s
}
