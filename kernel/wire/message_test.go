package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMessageRoundTripKeepsAllParts(t *testing.T) {
	s := NewSession("secret", "me")
	m, err := s.New("execute_request", map[string]any{"code": "a < b"})
	if err != nil {
		t.Fatal(err)
	}
	m.IDs = [][]byte{[]byte("id1"), {0, 1, 2}}
	m.Buffers = [][]byte{[]byte("<IDS|MSG>"), {}}
	frames, err := s.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewSession("secret", "other").Parse(frames)
	if err != nil {
		t.Fatal(err)
	}
	if got.Header != m.Header || got.Parent != (Header{}) || string(got.Content) != string(m.Content) {
		t.Errorf("got %+v, want %+v", got, m)
	}
	if len(got.IDs) != 2 || !bytes.Equal(got.IDs[1], m.IDs[1]) || len(got.Buffers) != 2 || string(got.Buffers[0]) != "<IDS|MSG>" {
		t.Errorf("identities %q, buffers %q", got.IDs, got.Buffers)
	}
	if string(got.Metadata) != "{}" {
		t.Errorf("metadata %s, want an empty object", got.Metadata)
	}
}

func TestReplyRepeatsTheParentHeaderByteForByte(t *testing.T) {
	s := NewSession("", "me")
	header := `{"msg_id": "7",  "msg_type":"x","version":"5.4","subshell_id":null,"session":"q","username":"u","date":"d"}`
	request, err := s.Parse([][]byte{[]byte("peer"), delimiter, {}, []byte(header), []byte("{}"), []byte("{}"), []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := s.Reply(request, "x_reply", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	frames, err := s.Encode(reply)
	if err != nil {
		t.Fatal(err)
	}
	if string(frames[0]) != "peer" || string(frames[4]) != header {
		t.Errorf("reply frames %q, want identity first and the parent header as received", frames)
	}
}

func TestForgedSignatureIsRefused(t *testing.T) {
	s := NewSession("secret", "me")
	m, _ := s.New("execute_request", map[string]any{"code": "1"})
	for name, forge := range map[string]func([][]byte){
		"content changed":   func(f [][]byte) { f[5] = []byte(`{"code":"2"}`) },
		"signature cut":     func(f [][]byte) { f[1] = f[1][:10] },
		"signature missing": func(f [][]byte) { f[1] = nil },
	} {
		frames, _ := s.Encode(m)
		forge(frames)
		if _, err := s.Parse(frames); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: got %v, want ErrSignature", name, err)
		}
	}
}

func TestMalformedMessagesAreErrors(t *testing.T) {
	s := NewSession("", "me")
	header := `{"msg_id":"1","msg_type":"t"}`
	for name, frames := range map[string][]string{
		"none":                {},
		"no delimiter":        {"a", "b", "c", "d", "e", "f", "g"},
		"too few":             {"<IDS|MSG>", "", header, "{}", "{}"},
		"header no JSON":      {"<IDS|MSG>", "", "x", "{}", "{}", "{}"},
		"content is a list":   {"<IDS|MSG>", "", header, "{}", "{}", "[]"},
		"content has rubbish": {"<IDS|MSG>", "", header, "{}", "{}", "{} x"},
	} {
		var raw [][]byte
		for _, f := range frames {
			raw = append(raw, []byte(f))
		}
		if _, err := s.Parse(raw); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestConnectionFileRoundTrip(t *testing.T) {
	c, err := NewConnection()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.json")
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadConnection(path)
	if err != nil || got != c {
		t.Errorf("got %+v, %v, want %+v", got, err, c)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want only the user to read the key", st.Mode())
	}
	os.WriteFile(path, []byte(`{"transport":"ipc"}`), 0o600)
	if _, err := ReadConnection(path); err == nil || !strings.Contains(err.Error(), "only tcp") {
		t.Errorf("ipc accepted: %v", err)
	}
}

func TestSessionDropsBadMessagesAndGoesOn(t *testing.T) {
	kernel, client := pair(t, "key")
	forger := NewSession("wrong key", "x")
	bad, _ := forger.New("evil_request", struct{}{})
	frames, _ := forger.Encode(bad)
	if err := client.Shell.Send(frames); err != nil {
		t.Fatal(err)
	}
	client.Shell.Send([][]byte{[]byte("rubbish")})
	good, _ := client.Session.New("good_request", struct{}{})
	if err := client.Session.Send(client.Shell, good); err != nil {
		t.Fatal(err)
	}
	m, err := kernel.Session.Recv(context.Background(), kernel.Shell)
	if err != nil || m.Type() != "good_request" {
		t.Fatalf("got %v, %v, want the good request", m, err)
	}
	if n := kernel.Session.Dropped(); n != 2 {
		t.Errorf("%d messages dropped, want 2", n)
	}
}

func FuzzParse(f *testing.F) {
	s := NewSession("", "me")
	m, _ := s.New("stream", map[string]string{"name": "stdout", "text": "é\n"})
	m.IDs = [][]byte{[]byte("stream.stdout")}
	frames, _ := s.Encode(m)
	f.Add(bytes.Join(frames, []byte{0xff}))
	f.Add([]byte("<IDS|MSG>\xff\xff{}\xff{}\xff{}\xff{}\xffbuffer"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := s.Parse(bytes.Split(data, []byte{0xff}))
		if err != nil {
			return
		}
		if !json.Valid(m.Content) || !json.Valid(m.Metadata) {
			t.Fatalf("accepted content %q, metadata %q", m.Content, m.Metadata)
		}
		again, err := s.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.Join(again, []byte{0xff}), withoutSignature(data)) {
			t.Fatalf("%q encoded again as %q", data, again)
		}
	})
}

// withoutSignature empties the signature frame, which is not checked without a key.
func withoutSignature(data []byte) []byte {
	parts := bytes.Split(data, []byte{0xff})
	for i, p := range parts {
		if bytes.Equal(p, delimiter) {
			parts[i+1] = nil
			break
		}
	}
	return bytes.Join(parts, []byte{0xff})
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, frame{flags: flagMore, body: []byte("abc")}))
	f.Add(appendFrame(nil, frame{body: bytes.Repeat([]byte("x"), 300)}))
	f.Add([]byte{flagLong, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add(appendFrame(nil, command{"READY", appendProperty(nil, "Identity", []byte("me"))}.frame()))
	f.Fuzz(func(t *testing.T, data []byte) {
		fr, err := readFrame(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		again, err := readFrame(bufio.NewReader(bytes.NewReader(appendFrame(nil, fr))))
		if err != nil || !bytes.Equal(again.body, fr.body) || again.more() != fr.more() || again.command() != fr.command() {
			t.Fatalf("frame %+v came back as %+v, %v", fr, again, err)
		}
		if cmd, err := parseCommand(fr.body); err == nil {
			parseProperties(cmd.data)
		}
	})
}
