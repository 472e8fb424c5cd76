package wire

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
)

// Connection is the content of a Jupyter connection file: where a kernel listens and the key both sides sign with.
type Connection struct {
	Transport       string `json:"transport"` // "tcp"
	IP              string `json:"ip"`
	ShellPort       int    `json:"shell_port"`
	IOPubPort       int    `json:"iopub_port"`
	StdinPort       int    `json:"stdin_port"`
	ControlPort     int    `json:"control_port"`
	HBPort          int    `json:"hb_port"`
	Key             string `json:"key"`
	SignatureScheme string `json:"signature_scheme"` // "hmac-sha256"
	KernelName      string `json:"kernel_name,omitempty"`
}

// NewConnection picks five free ports on the loopback interface and a random key.
// Another program may take a port before the kernel binds it; the kernel then ends at once and a new connection helps.
func NewConnection() (Connection, error) {
	c := Connection{Transport: "tcp", IP: "127.0.0.1", Key: newID() + newID(), SignatureScheme: "hmac-sha256"}
	for _, port := range []*int{&c.ShellPort, &c.IOPubPort, &c.StdinPort, &c.ControlPort, &c.HBPort} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return c, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // all five are held until all are known, so that they differ
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return c, nil
}

// ReadConnection reads a connection file and refuses what this package does not speak.
func ReadConnection(path string) (Connection, error) {
	var c Connection
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read connection file: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read connection file %s: %w", path, err)
	}
	if c.Transport != "tcp" && c.Transport != "" {
		return c, fmt.Errorf("connection file %s: transport %q, only tcp is supported", path, c.Transport)
	}
	if c.SignatureScheme != "hmac-sha256" && c.SignatureScheme != "" {
		return c, fmt.Errorf("connection file %s: signature scheme %q, only hmac-sha256 is supported", path, c.SignatureScheme)
	}
	return c, nil
}

// Write stores the connection file. Only the user can read it, because of the key.
func (c Connection) Write(path string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode connection file: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write connection file: %w", err)
	}
	return nil
}

func (c Connection) addr(port int) string { return net.JoinHostPort(c.IP, strconv.Itoa(port)) }
