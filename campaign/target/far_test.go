package target

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Stand-ins for docker, podman and kubectl, which run the words here as the real ones do in a container, and complain as they do.
const fakeDocker = `#!/bin/sh
me=${0##*/}
[ "$1" = exec ] || { echo "unexpected: $*" >&2; exit 64; }
case $2 in
box) shift 2; "$@"; r=$?; exit $r ;;
stopped) echo "Error response from daemon: container 0a1b is not running" >&2; exit 1 ;;
locked) echo "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get \"http://%2Fvar%2Frun%2Fdocker.sock/v1.47\": dial unix /var/run/docker.sock: connect: permission denied" >&2; exit 1 ;;
down) echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?" >&2; exit 1 ;;
bare) shift 2; echo "OCI runtime exec failed: exec failed: unable to start container process: exec: \"$1\": executable file not found in \$PATH: unknown" >&2; exit 127 ;;
*) [ $me = podman ] && echo "Error: no container with name or ID \"$2\" found: no such container" >&2 || echo "Error response from daemon: No such container: $2" >&2; exit 1 ;;
esac
`
const fakeKubectl = `#!/bin/sh
[ "$1 $2" = "exec --namespace" ] || { echo "unexpected: $*" >&2; exit 64; }
ns=$3 pod=$4; shift 4
[ "$1" = --container ] && { [ "$2" = server ] || { echo "Error from server (BadRequest): container $2 is not valid for pod $pod" >&2; exit 1; }; shift 2; }
[ "$1" = -- ] || { echo "error: unexpected $1" >&2; exit 64; }
shift
case $ns/$pod in
prod/box) "$@"; r=$?; [ $r = 0 ] || echo "command terminated with exit code $r" >&2; exit $r ;;
closed/*) echo "Error from server (Forbidden): pods \"$pod\" is forbidden: User \"me\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"$ns\"" >&2; exit 1 ;;
lost/*) echo "The connection to the server localhost:8080 was refused - did you specify the right host or port?" >&2; exit 1 ;;
*) echo "Error from server (NotFound): pods \"$pod\" not found" >&2; exit 1 ;;
esac
`

// A stand-in for ssh joins its words with spaces and gives them to a shell, as the real one does.
const fakeSSH = `#!/bin/sh
while [ "$1" != -- ]; do shift; done
node=$2; shift 2
case $node in
node) exec sh -c "$*" ;;
strange) printf 'No ED25519 host key is known for strange and you have requested strict checking.\r\nHost key verification failed.\r\n' >&2; exit 255 ;;
changed) printf '@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n' >&2; exit 255 ;;
locked) echo "me@locked: Permission denied (publickey,password)." >&2; exit 255 ;;
off) echo "ssh: connect to host off port 22: Connection refused" >&2; exit 255 ;;
far) echo "ssh: connect to host far port 22: Connection timed out" >&2; exit 255 ;;
*) echo "ssh: Could not resolve hostname $node: Name or service not known" >&2; exit 255 ;;
esac
`

// fakes puts the stand-ins in front of PATH.
func fakes(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"docker": fakeDocker, "podman": fakeDocker, "kubectl": fakeKubectl, "ssh": fakeSSH} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func parse(t *testing.T, spec string) Host {
	t.Helper()
	h, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestFilesAreTheSameFromEverywhere(t *testing.T) {
	fakes(t)
	for _, spec := range []string{"local", "ssh:node", "docker:box", "podman:box", "kubectl:prod/box", "kubectl:prod/box/server", "ssh:node+docker:box", "ssh:node+ssh:node+kubectl:prod/box/server"} {
		t.Run(spec, func(t *testing.T) { checkFiles(t, parse(t, spec)) })
	}
}

// checkFiles holds a host, behind which is this machine, against what this machine sees itself.
func checkFiles(t *testing.T, h Host) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), `it's a "dir" $HOME \n`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if files, err := h.List(ctx, dir); err != nil || len(files) != 0 {
		t.Errorf("an empty folder has %v, %v", files, err)
	}
	content := bytes.Repeat([]byte("0123456789\x00\n"), 20000)
	when := time.Unix(1780000000, 123456789)
	for name, b := range map[string][]byte{"a.pt.trace.json.gz": content, "-rf": {1}, ".hidden": {}, "..two": {2}, "sp ace'\"$x|y": {3}, "é": {4}} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.Symlink("-rf", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	files, err := h.List(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	here, err := Host{}.List(ctx, dir)
	if err != nil || len(files) != 6 || len(here) != 6 {
		t.Fatalf("%d files there, %d here, want 6: %v %v", len(files), len(here), files, err)
	}
	for i, f := range files {
		if f != here[i] {
			t.Errorf("there %+v, here %+v", f, here[i])
		}
	}

	name := filepath.Join(dir, "a.pt.trace.json.gz")
	for _, offset := range []int64{0, 1, 100001, int64(len(content)), int64(len(content)) + 5} {
		var got bytes.Buffer
		if err := h.Read(ctx, name, offset, &got); err != nil || !bytes.Equal(got.Bytes(), content[min(offset, int64(len(content))):]) {
			t.Errorf("from byte %d: %d bytes, %v", offset, got.Len(), err)
		}
	}
	sum, err := h.SHA256(ctx, name)
	want, _ := Host{}.SHA256(ctx, name)
	if err != nil || sum != want || len(sum) != 64 {
		t.Errorf("checksum %s, want %s: %v", sum, want, err)
	}
	free, err := h.FreeBytes(ctx, filepath.Join(dir, "not", "yet"))
	if err != nil || free <= 0 {
		t.Errorf("free space %d, %v", free, err)
	}

	if files, err := h.List(ctx, filepath.Join(dir, "gone")); err != nil || files != nil {
		t.Errorf("a folder that is not there: %v, %v", files, err)
	}
	var none bytes.Buffer
	if err := h.Read(ctx, filepath.Join(dir, "gone"), 0, &none); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "read "+dir) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := h.SHA256(ctx, filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checksum of a file that is not there: %v", err)
	}
	odd := []string{"printf", `%s\0`, "a b", "", "it's", `"`, `\`, "$HOME `id` $(id)", "a\nb", "!", "*", "é"}
	out, err := h.Output(ctx, odd...)
	if err != nil || string(out) != strings.Join(odd[2:], "\x00")+"\x00" {
		t.Errorf("words arrive as %q, %v", out, err)
	}
	_, err = h.Output(ctx, "sh", "-c", "echo wrong >&2; exit 7")
	var e *Error
	if !errors.As(err, &e) || e.Exit != 7 || !strings.Contains(e.Stderr, "wrong") || !e.Reached() || !strings.Contains(err.Error(), "wrong (exit status 7)") {
		t.Errorf("a program that ends with 7: %v", err)
	}
	_, err = h.Output(ctx, "no-such-program-here")
	if !errors.As(err, &e) || !e.NotFound() || !strings.Contains(err.Error(), "not installed there") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	fakes(t)
	for spec, want := range map[string]string{
		"ssh:strange":             "the host key of strange is not known: connect once by hand",
		"ssh:changed":             "another than before",
		"ssh:locked":              "does not let this user in without a password",
		"ssh:off":                 "no ssh server answers at off",
		"ssh:far":                 "does not answer ssh",
		"ssh:typo":                "no machine is called typo",
		"docker:typo":             "there is no container typo: `docker ps` lists",
		"podman:typo":             "there is no container typo: `podman ps` lists",
		"docker:stopped":          "container stopped does not run",
		"docker:locked":           "this user may not talk to docker",
		"docker:down":             "docker does not run there",
		"ssh:node+docker:typo":    "there is no container typo",
		"kubectl:prod/typo":       "there is no pod typo in namespace prod",
		"kubectl:prod/box/typo":   "no running container of that name",
		"kubectl:closed/box":      "may not exec into pods of namespace closed",
		"kubectl:lost/box":        "kubectl knows no cluster",
		"ssh:node+ssh:other":      "no machine is called other",
		"ssh:node+kubectl:prod/x": "there is no pod x",
	} {
		_, err := parse(t, spec).Output(context.Background(), "id")
		var e *Error
		if !errors.As(err, &e) || e.Reached() || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "on "+spec) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	_, err := parse(t, "docker:bare").Output(context.Background(), "nvidia-smi")
	if err == nil || !strings.Contains(err.Error(), "run nvidia-smi on docker:bare: the program is not installed there") {
		t.Errorf("a program that a container lacks: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, spec := range []string{"ssh:node", "docker:box", "podman:box", "kubectl:prod/box"} {
		_, err := parse(t, spec).List(context.Background(), "/")
		want := strings.Split(spec, ":")[0] + " is not installed on this machine"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

func TestACancelledCommandEnds(t *testing.T) {
	fakes(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := parse(t, "ssh:node").Output(ctx, "sleep", "60")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	if _, err := (Host{}).Output(context.Background(), "head", "-c", "17000000", "/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("got %v", err)
	}
}

// busybox in place of every program of coreutils.
func TestTheFarSideMayHaveBusyboxOnly(t *testing.T) {
	box, err := exec.LookPath("busybox")
	if err != nil {
		without(t, "busybox is not installed here (Debian: busybox)")
	}
	fakes(t)
	bin := t.TempDir()
	if out, err := exec.Command(box, "--install", "-s", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", strings.Split(os.Getenv("PATH"), ":")[0]+":"+bin)
	checkFiles(t, parse(t, "docker:box"))
	checkServers(t, parse(t, "docker:box"))
}
