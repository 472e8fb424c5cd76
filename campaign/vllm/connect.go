package vllm

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options say which server a client talks to and how it is let in.
//
// Proxies come from HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as Go reads them: loopback addresses and localhost are never
// reached through a proxy, so a tunnel to 127.0.0.1 needs no NO_PROXY. A value that is no address counts as none.
type Options struct {
	// Target is the server's address: "http://127.0.0.1:8000", "gpu-node:8000", "[::1]:8000", "https://host/prefix".
	// Without a scheme it is http. An IPv6 address stands in brackets and may have a zone: "[fe80::1%eth0]:8000".
	Target string
	// APIKey is sent as a bearer token; "" sends none. It is in no error and no output, String included.
	APIKey string
	// CAFile holds PEM certificates of authorities that are trusted beside the system's; "" is none.
	CAFile string
}

// FromEnv returns the options for a target with what the environment says: the API key in ROOFLAB_API_KEY, else in the
// file that ROOFLAB_API_KEY_FILE names, and ROOFLAB_CA_FILE. Blanks and line ends around the key do not count.
func FromEnv(target string) (Options, error) {
	o := Options{Target: target, APIKey: strings.TrimSpace(os.Getenv("ROOFLAB_API_KEY")), CAFile: os.Getenv("ROOFLAB_CA_FILE")}
	name := os.Getenv("ROOFLAB_API_KEY_FILE")
	if o.APIKey != "" || name == "" {
		return o, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return o, fmt.Errorf("read the API key: %w; --api-key-file or ROOFLAB_API_KEY_FILE names the file", err)
	}
	if o.APIKey = strings.TrimSpace(string(b)); o.APIKey == "" {
		return o, fmt.Errorf("read the API key: %s is empty", name)
	}
	return o, nil
}

// String shows the target only.
func (o Options) String() string { return o.Target }

// GoString shows the target only.
func (o Options) GoString() string { return o.Target }

// New returns a client. It does not contact the server.
func New(o Options) (*Client, error) {
	u, err := address(o.Target)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(o.APIKey)
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key holds blanks or characters that HTTP does not allow; is it the whole file of a key and something else?")
	}
	trust, err := authorities(o.CAFile)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     &tls.Config{RootCAs: trust}, // with it HTTP/2 is off: every stream has its own connection
		MaxIdleConnsPerHost: 1024,                        // one connection a stream, kept for the next pass
		DisableCompression:  true,                        // compressing would blur arrival times
	}
	if name, _, zoned := strings.Cut(u.Hostname(), "%"); zoned {
		t.TLSClientConfig.ServerName = name // no certificate names a zone
	}
	c := &Client{base: u.String(), host: u.Host, http: &http.Client{Transport: t, CheckRedirect: stay}}
	if key != "" {
		c.http.Transport = keyed{func() string { return key }, t}
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil {
		return nil, fmt.Errorf("find the proxy: %w", err)
	}
	if proxy != nil {
		c.proxy = proxy.Host // without the user and password that it may have
	}
	return c, nil
}

// stay follows redirects of a GET inside the server, such as /metrics to /metrics/, and no other: they turn POST into GET
// and take the key elsewhere.
func stay(req *http.Request, via []*http.Request) error {
	from := via[0]
	if len(via) < 3 && from.Method == http.MethodGet && req.URL.Host == from.URL.Host && req.URL.Scheme == from.URL.Scheme {
		return nil
	}
	return http.ErrUseLastResponse
}

// keyed sends the API key with every request, and takes it out of refusals: some gateways repeat it.
type keyed struct {
	key  func() string // not the text: printing a client must not show it
	next *http.Transport
}

func (k keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+k.key())
	resp, err := k.next.RoundTrip(req)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	b = bytes.ReplaceAll(b, []byte(k.key()), []byte("[API key]"))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp, nil
}

// CloseIdleConnections lets http.Client reach the connections.
func (k keyed) CloseIdleConnections() { k.next.CloseIdleConnections() }

// address reads a target. A target that holds a user name or password is not repeated.
func address(target string) (*url.URL, error) {
	text := strings.TrimSpace(target)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	if strings.Contains(text, "@") {
		return nil, errors.New("the target must not hold a user name or password; give the API key in ROOFLAB_API_KEY")
	}
	no := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("%q is no address of a server: %s; give one like http://127.0.0.1:8000 or http://[::1]:8000", target, why)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		return no("an IPv6 address stands in brackets")
	}
	if zone := strings.Index(host, "%"); zone > 0 && !strings.HasPrefix(host[zone:], "%25") {
		rest = strings.Replace(rest, "%", "%25", 1) // a URL writes the zone's % as %25
	}
	u, err := url.Parse(scheme + "://" + rest)
	switch {
	case err != nil:
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return no(err.Error())
	case u.Scheme != "http" && u.Scheme != "https":
		return no("it is neither http nor https")
	case u.Hostname() == "":
		return no("it names no host")
	case strings.HasSuffix(u.Host, ":"):
		return no("the port is missing after the colon")
	case u.RawQuery != "" || u.Fragment != "":
		return no("nothing may follow after ? or #")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return no("a port is 1 to 65535")
		}
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(path, "/")}, nil
}

// authorities returns the system's certificate authorities with those of a file; nil is the system's alone.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities: %w; --ca-file or ROOFLAB_CA_FILE names the file", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without any
	}
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read the certificate authorities: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", file)
	}
	return pool, nil
}
