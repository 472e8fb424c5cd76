package vllm

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secretKey = "sk-Very/Secret+0123456789="

func TestTargetsInEveryForm(t *testing.T) {
	for target, want := range map[string]string{
		"127.0.0.1:8000":                "http://127.0.0.1:8000",
		" http://gpu-node:8000/ \n":     "http://gpu-node:8000",
		"https://gpu-node":              "https://gpu-node",
		"HTTP://gpu-node:8000/v1":       "http://gpu-node:8000",
		"https://host/prefix/v1/":       "https://host/prefix",
		"[::1]:8000":                    "http://[::1]:8000",
		"https://[2001:db8::1]/":        "https://[2001:db8::1]",
		"[fe80::1%eth0]:8000":           "http://[fe80::1%25eth0]:8000",
		"http://[fe80::1%25eth0]:8000/": "http://[fe80::1%25eth0]:8000",
	} {
		c, err := New(Options{Target: target})
		if err != nil || c.Target() != want {
			t.Errorf("%q: %v, want %s", target, err, want)
		}
	}
	for target, words := range map[string]string{
		"":                            "names no host",
		"http://":                     "names no host",
		"http://:8000":                "names no host",
		"http://host:":                "the port is missing",
		"host:":                       "the port is missing",
		"http:/host":                  "the port is missing",
		"host:0":                      "a port is 1 to 65535",
		"host:65536":                  "a port is 1 to 65535",
		"host:abc":                    "invalid port",
		"::1":                         "in brackets",
		"::1:8000":                    "in brackets",
		"http://[::1":                 "missing ']'",
		"ftp://x":                     "neither http nor https",
		"unix:///run/vllm.sock":       "neither http nor https",
		"http://x/?api_key=secret":    "after ? or #",
		"http://user:secret@x":        "must not hold a user name or password",
		"http://user:sec ret@x:8 000": "must not hold a user name or password",
	} {
		_, err := New(Options{Target: target})
		wantError(t, target, err, nil, words)
		if strings.Contains(fmt.Sprint(err), "secret") && strings.Contains(target, "@") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}

func TestKeyAndAuthoritiesComeFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for _, name := range []string{"ROOFLAB_API_KEY", "ROOFLAB_API_KEY_FILE", "ROOFLAB_CA_FILE"} {
		t.Setenv(name, "")
	}
	if o, err := FromEnv("x"); err != nil || o != (Options{Target: "x"}) {
		t.Errorf("nothing is set: %#v %v", o, err)
	}
	t.Setenv("ROOFLAB_API_KEY_FILE", file)
	_, err := FromEnv("x")
	wantError(t, "no file", err, os.ErrNotExist, "read the API key", "ROOFLAB_API_KEY_FILE")
	os.WriteFile(file, []byte(" \n"), 0o644)
	_, err = FromEnv("x")
	wantError(t, "an empty file", err, nil, "is empty")
	os.WriteFile(file, []byte("\t"+secretKey+"\r\n"), 0o644)
	t.Setenv("ROOFLAB_CA_FILE", "ca.pem")
	if o, err := FromEnv("x"); err != nil || o.APIKey != secretKey || o.CAFile != "ca.pem" {
		t.Errorf("the file: %v", err)
	}
	t.Setenv("ROOFLAB_API_KEY", " other\n")
	if o, err := FromEnv("x"); err != nil || o.APIKey != "other" {
		t.Errorf("the variable wins: %v", err)
	}
}

func TestKeyIsSentAndShownNowhere(t *testing.T) {
	o := Options{Target: "host:1", APIKey: secretKey}
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key: %s","type":"%s"}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Authorization"))
	})
	c, err := New(Options{Target: c.Target(), APIKey: secretKey + "\n"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(context.Background())
	wantError(t, "401", err, nil, "Incorrect API key: [API key]", "API key in ROOFLAB_API_KEY")
	_, errStream := c.Stream(context.Background(), Completion{Prompt: []int{1}, MaxTokens: 1}, time.Now(), func(Chunk) {})
	_, errKey := New(Options{Target: "x", APIKey: secretKey + "\nsecond line"})
	wantError(t, "two lines", errKey, nil, "the API key holds blanks")
	for _, shown := range []any{o, &o, c, err, errStream, errKey} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if s := fmt.Sprintf(verb, shown); strings.Contains(s, secretKey) {
				t.Errorf("%s of a %T shows the key: %.200s", verb, shown, s)
			}
		}
	}
}

func TestRedirectsAreToldAndNotFollowedElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s reached the other server, with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
		case "/metrics/":
			io.WriteString(w, "vllm:num_requests_running 3\n")
		default:
			http.Redirect(w, r, other.URL+r.URL.Path+"?token=x", http.StatusMovedPermanently)
		}
	})
	if s, err := c.Metrics(context.Background()); err != nil || len(s.Families) != 1 {
		t.Errorf("inside the server: %v", err)
	}
	_, err := c.Version(context.Background())
	wantError(t, "another server", err, nil, "sent to "+other.URL+"/version;", "as target")
	_, err = c.StartProfile(context.Background(), ProfileOptions{})
	wantError(t, "a start", err, nil, "answered 301")
}

// authority makes certificates; its own is in file.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{key: key, file: filepath.Join(t.TempDir(), "ca.pem")}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// serve starts an HTTPS server whose certificate is for 127.0.0.1, as change makes it.
func (a authority) serve(t *testing.T, change func(*x509.Certificate), clients tls.ClientAuthType) string {
	form := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if change != nil {
		change(form)
	}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"version":"0.32.0"}`) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: a.key}}, ClientAuth: clients}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestCertificatesAreCheckedAndExplained(t *testing.T) {
	a := newAuthority(t)
	good := a.serve(t, nil, tls.NoClientCert)
	ask := func(target, ca string) error {
		c, err := New(Options{Target: target, CAFile: ca, APIKey: secretKey})
		if err != nil {
			return err
		}
		defer c.CloseIdle()
		_, err = c.Version(context.Background())
		return err
	}
	if err := ask(good, a.file); err != nil {
		t.Errorf("the own authority: %v", err)
	}
	wantError(t, "unknown authority", ask(good, ""), nil, "is signed by an authority that is not trusted here", "--ca-file or ROOFLAB_CA_FILE")
	wantError(t, "another authority", ask(good, newAuthority(t).file), nil, "not trusted here")
	old := a.serve(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Unix(1e9, 0), time.Unix(1.1e9, 0) }, tls.NoClientCert)
	wantError(t, "expired", ask(old, a.file), nil, "is valid from 2001-09-09 to 2004-11-09 only", "renew it")
	wrong := a.serve(t, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"gpu-node", "gpu-node.lan"} }, tls.NoClientCert)
	wantError(t, "wrong host", ask(wrong, a.file), nil, "is for gpu-node, gpu-node.lan; give the target by such a name")
	local := a.serve(t, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv6loopback} }, tls.NoClientCert)
	c, err := New(Options{Target: "https://[::1%lo]:1", CAFile: a.file})
	if err != nil {
		t.Fatal(err)
	}
	c.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(local, "https://"))
	}
	if _, err := c.Version(context.Background()); err != nil {
		t.Errorf("a certificate names no zone: %v", err)
	}
	c.CloseIdle()
	picky := a.serve(t, nil, tls.RequireAnyClientCert)
	wantError(t, "client's certificate", ask(picky, a.file), nil, "broke off the TLS handshake", "certificate")

	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	host := strings.TrimPrefix(plain.URL, "http://")
	wantError(t, "https to a plain port", ask("https://"+host, ""), nil, host+" speaks plain HTTP, not HTTPS; give the target as http://"+host)
	wantError(t, "http to a TLS port in Go", ask("http://"+strings.TrimPrefix(good, "https://"), ""), nil, "give the target with https://")
	wantError(t, "no file", ask(good, "/nowhere.pem"), os.ErrNotExist, "--ca-file")
	empty := filepath.Join(t.TempDir(), "key.pem")
	os.WriteFile(empty, []byte("no certificate"), 0o600)
	wantError(t, "no certificate", ask(good, empty), nil, "holds no certificate in PEM form")
}

// A TLS server in Python closes a plain connection without a word; another one may send an alert.
func TestPlainRequestToASilentTLSPortIsExplained(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS() // for its certificate
	defer s.Close()
	for name, word := range map[string]string{"silent": "", "alert": "\x15\x03\x01\x00\x02\x02\x46"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				first := make([]byte, 1)
				io.ReadFull(conn, first)
				if first[0] == 0x16 { // a handshake
					rest := &rewound{conn, first}
					tls.Server(rest, s.TLS).Handshake()
				} else {
					io.WriteString(conn, word)
				}
				conn.Close()
			}
		}()
		c, err := New(Options{Target: l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Version(context.Background())
		wantError(t, name, err, nil, "speaks HTTPS, not plain HTTP; give the target as https://"+l.Addr().String())
	}
}

type rewound struct {
	net.Conn
	first []byte
}

func (r *rewound) Read(b []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(b, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}

func TestIPv6ServersAreReached(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"version":%q}`, r.Host) })}
	go s.Serve(l)
	defer s.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, target := range []string{l.Addr().String(), "http://" + l.Addr().String(), "[::1%lo]:" + port} {
		c, err := New(Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if host, err := c.Version(context.Background()); err != nil || host != l.Addr().String() {
			t.Errorf("%s: %q %v", target, host, err)
		}
		c.CloseIdle()
	}
}

// The environment of proxies is read once a process, so each case is a process of its own.
func TestProxies(t *testing.T) {
	if target := os.Getenv("TEST_PROXY_TARGET"); target != "" {
		c, err := New(Options{Target: target, APIKey: secretKey})
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		v, err := c.Version(context.Background())
		fmt.Printf("version %q, error: %v\n", v, err)
		return
	}
	asked := map[string]bool{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.Method+" "+r.RequestURI] = true // the cases come one after another
		if r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		io.WriteString(w, `{"version":"through the proxy"}`)
	}))
	defer proxy.Close()
	direct := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"version":"direct"}`) }))
	defer direct.Close()
	at := strings.TrimPrefix(proxy.URL, "http://")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := closed.Addr().String()
	closed.Close()
	for name, c := range map[string]struct{ target, proxy, no, words string }{
		"through":      {"http://gpu-node.test:8000", "http://me:hidden@" + at, "", `version "through the proxy"`},
		"no password":  {"http://gpu-node.test:8000", "http://" + at, "", "407"},
		"NO_PROXY":     {"http://gpu-node.test:8000", "http://me:hidden@" + at, "gpu-node.test", "gpu-node.test:8000"},
		"loopback":     {direct.URL, "http://me:hidden@" + at, "", `version "direct"`},
		"https":        {"https://gpu-node.test", "http://" + at, "", "(through the proxy " + at + "): Proxy Authentication Required"},
		"proxy is off": {"http://gpu-node.test:8000", "http://me:hidden@" + gone, "", "the proxy " + gone + " of HTTP_PROXY or HTTPS_PROXY does not answer: "},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxies$", "-test.v")
		cmd.Env = []string{"TEST_PROXY_TARGET=" + c.target, "HTTP_PROXY=" + c.proxy, "HTTPS_PROXY=" + c.proxy, "NO_PROXY=" + c.no}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.words) || strings.Contains(string(out), "hidden") {
			t.Errorf("%s: %v, want %q and no password:\n%s", name, err, c.words, out)
		}
	}
	if !asked["GET http://gpu-node.test:8000/version"] || !asked["CONNECT gpu-node.test:443"] || len(asked) != 2 {
		t.Errorf("the proxy was asked for %v", asked)
	}
}

func TestErrorsStillSayWhatTheyAre(t *testing.T) {
	c, err := New(Options{Target: "no-such-host.invalid:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(context.Background())
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		t.Errorf("%v is no DNS error", err)
	}
}

func TestErrorPagesOfGatewaysAreToldInTheirWords(t *testing.T) {
	for body, want := range map[string]string{
		"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n":      "502 Bad Gateway",
		"<!DOCTYPE html>\n<html><head><style>p { color: red }</style><title> </title></head>\n<body><p>Back-end &quot;gpu7&quot;\n is <b>down</b></p><script>x < 1</script></body></html>": `Back-end "gpu7" is down`,
		"<unclosed":                     "<unclosed",
		"no healthy upstream":           "no healthy upstream",
		`{"error":{"message":"a < b"}}`: "a < b",
	} {
		if got := statusError("GET", "/x", 502, []byte(body)).Message; got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}
