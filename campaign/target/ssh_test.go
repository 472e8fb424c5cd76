package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A real ssh server of this user on 127.0.0.1, with keys that live as long as the test.
func TestRealSSH(t *testing.T) {
	h := sshServer(t)
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), `it's $HOME \n`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "-a 'b'")
	if err := os.WriteFile(name, []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	here, _ := Host{}.List(ctx, dir)
	if files, err := h.List(ctx, dir); err != nil || !slices.Equal(files, here) {
		t.Errorf("there %v, here %v: %v", files, here, err)
	}
	var got bytes.Buffer
	if err := h.Read(ctx, name, 4, &got); err != nil || got.String() != "456789" {
		t.Errorf("from byte 4: %q, %v", got.String(), err)
	}
	checkServers(t, h)
	twice := Host{hops: []hop{h.hops[0], h.hops[0]}} // through the machine to itself
	odd := []string{"printf", `%s\0`, "a b", "", "it's", `"`, `\`, "$HOME `id`", "a\nb", "!", "é"}
	if out, err := twice.Output(ctx, odd...); err != nil || string(out) != strings.Join(odd[2:], "\x00")+"\x00" {
		t.Errorf("words arrive as %q, %v", out, err)
	}
	other := h.hops[0]
	other.name = "nobody-here@127.0.0.1"
	_, err := Host{hops: []hop{other}}.Output(ctx, "id")
	if err == nil || !strings.Contains(err.Error(), "does not let this user in without a password") {
		t.Errorf("a user without a key: %v", err)
	}
	gone := h.hops[0]
	gone.port = "1"
	_, err = Host{hops: []hop{gone}}.Output(ctx, "id")
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a port without a server: %v", err)
	}
	t.Setenv("TARGET_TEST_KNOWN_HOSTS", filepath.Join(t.TempDir(), "none"))
	_, err = h.Output(ctx, "id")
	var e *Error
	if !errors.As(err, &e) || e.Reached() || !strings.Contains(err.Error(), "is not known: connect once by hand") {
		t.Errorf("a machine never seen before: %v", err)
	}
}

// without skips a test whose program is missing; CI must have it.
func without(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// sshServer starts sshd and puts an ssh in front of PATH that knows its keys. Without sshd the test is skipped.
func sshServer(t *testing.T) Host {
	t.Helper()
	sshd, ssh := program("sshd"), program("ssh")
	if sshd == "" || ssh == "" {
		without(t, "OpenSSH's server or client is not installed here (Debian: openssh-server)")
	}
	if os.Getuid() == 0 {
		if _, err := user.Lookup("sshd"); err != nil {
			without(t, "as root, sshd needs the user sshd, which is not here")
		}
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // its package makes it when the machine starts
			t.Skip(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, key := range []string{"host", "mine"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	public := func(key string) string {
		raw, err := os.ReadFile(filepath.Join(dir, key+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	allowed := file("allowed", public("mine"), 0o600)
	config := file("sshd_config", fmt.Sprintf("ListenAddress 127.0.0.1\nPort %s\nHostKey %s/host\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nSetEnv PATH=%s\n",
		port, dir, allowed, os.Getenv("PATH")), 0o600)
	known := file("known", fmt.Sprintf("[127.0.0.1]:%s %s", port, public("host")), 0o600)
	t.Setenv("TARGET_TEST_KNOWN_HOSTS", known)
	file("ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F none -i %s/mine -o IdentitiesOnly=yes -o GlobalKnownHostsFile=none -o UserKnownHostsFile=${TARGET_TEST_KNOWN_HOSTS:-%s} \"$@\"\n", ssh, dir, known), 0o755)
	path := dir + ":" + os.Getenv("PATH")
	t.Setenv("PATH", path)
	file("sshd_config", strings.Replace(read(t, config), "SetEnv PATH=", "SetEnv PATH="+dir+":", 1), 0o600)

	var said strings.Builder
	cmd := exec.Command(sshd, "-D", "-e", "-f", config)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	h := parse(t, "ssh:"+me.Username+"@127.0.0.1:"+port)
	for range 300 {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("sshd ended: %v: %s", err, said.String())
		default:
		}
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return h
}

func program(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		p, _ = filepath.Abs(p)
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
