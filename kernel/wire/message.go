package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ProtocolVersion is the Jupyter messaging version of headers made here.
const ProtocolVersion = "5.3"

var delimiter = []byte("<IDS|MSG>")

// ErrSignature means a message was not signed with the session's key. Drop the message and go on.
var ErrSignature = errors.New("message signature does not match the key of the connection file")

// Header identifies a message. Keys it does not know stay in the raw form that a reply refers to.
type Header struct {
	MsgID    string `json:"msg_id"`
	Username string `json:"username"`
	Session  string `json:"session"`
	Date     string `json:"date"` // ISO 8601, UTC
	MsgType  string `json:"msg_type"`
	Version  string `json:"version"`
}

// Message is one Jupyter message.
type Message struct {
	IDs      [][]byte        // routing identities; on iopub the topic
	Header   Header          // this message
	Parent   Header          // the request it belongs to, zero when there is none
	Metadata json.RawMessage // an object, {} when empty
	Content  json.RawMessage // an object
	Buffers  [][]byte        // raw data behind the four JSON parts

	rawHeader, rawParent json.RawMessage // as received
}

// Type is short for the header's message type.
func (m *Message) Type() string { return m.Header.MsgType }

// Decode reads the content into v.
func (m *Message) Decode(v any) error {
	if err := json.Unmarshal(m.Content, v); err != nil {
		return fmt.Errorf("read content of %s: %w", m.Header.MsgType, err)
	}
	return nil
}

// Session makes, signs and checks the messages of one process.
type Session struct {
	id       string
	username string
	key      []byte
	count    atomic.Int64 // messages made
	dropped  atomic.Int64
}

// NewSession starts a session with the key of a connection file. An empty key turns signatures off, as Jupyter has it.
func NewSession(key, username string) *Session {
	return &Session{id: newID(), username: username, key: []byte(key)}
}

// ID is the session's own id, new for each process.
func (s *Session) ID() string { return s.id }

// New makes a message without a parent. The content must encode to a JSON object.
func (s *Session) New(msgType string, content any) (*Message, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode content of %s: %w", msgType, err)
	}
	return &Message{
		Header: Header{
			MsgID:    fmt.Sprintf("%s_%d", s.id, s.count.Add(1)),
			Username: s.username,
			Session:  s.id,
			Date:     time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
			MsgType:  msgType,
			Version:  ProtocolVersion,
		},
		Content: raw,
	}, nil
}

// Reply makes a message with parent as its parent, addressed to where parent came from.
// The parent's header is repeated byte for byte, with the keys this package does not know.
func (s *Session) Reply(parent *Message, msgType string, content any) (*Message, error) {
	m, err := s.New(msgType, content)
	if err != nil {
		return nil, err
	}
	m.IDs, m.Parent, m.rawParent = parent.IDs, parent.Header, parent.rawHeader
	return m, nil
}

// Encode gives the signed frames of m, ready for Socket.Send.
func (s *Session) Encode(m *Message) ([][]byte, error) {
	header, err := rawOr(m.rawHeader, m.Header)
	if err != nil {
		return nil, err
	}
	parent := m.rawParent
	if parent == nil && m.Parent.MsgID == "" {
		parent = json.RawMessage("{}")
	}
	if parent, err = rawOr(parent, m.Parent); err != nil {
		return nil, err
	}
	parts := [][]byte{header, parent, orEmpty(m.Metadata), orEmpty(m.Content)}
	frames := make([][]byte, 0, len(m.IDs)+6+len(m.Buffers))
	frames = append(frames, m.IDs...)
	frames = append(frames, delimiter, s.sign(parts))
	frames = append(frames, parts...)
	return append(frames, m.Buffers...), nil
}

// Parse reads and checks the frames of a message. An error concerns this message only.
func (s *Session) Parse(frames [][]byte) (*Message, error) {
	n := 0
	for n < len(frames) && !bytes.Equal(frames[n], delimiter) {
		n++
	}
	if len(frames) < n+6 {
		return nil, fmt.Errorf("message of %d frames: want identities, %s, signature and four JSON parts", len(frames), delimiter)
	}
	parts := frames[n+2 : n+6]
	if !hmac.Equal(frames[n+1], s.sign(parts)) && len(s.key) > 0 {
		return nil, ErrSignature
	}
	m := &Message{
		IDs:      frames[:n:n],
		Metadata: parts[2], Content: parts[3],
		Buffers:   frames[n+6:],
		rawHeader: parts[0], rawParent: parts[1],
	}
	if err := json.Unmarshal(parts[0], &m.Header); err != nil {
		return nil, fmt.Errorf("read message header: %w", err)
	}
	if err := json.Unmarshal(parts[1], &m.Parent); err != nil {
		return nil, fmt.Errorf("read parent header of %s: %w", m.Header.MsgType, err)
	}
	for i, part := range parts {
		if !isObject(part) {
			return nil, fmt.Errorf("part %d of %s is not a JSON object", i+1, m.Header.MsgType)
		}
	}
	return m, nil
}

// sign is the HMAC-SHA256 of the parts in hexadecimal, empty without a key.
func (s *Session) sign(parts [][]byte) []byte {
	if len(s.key) == 0 {
		return []byte{}
	}
	mac := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		mac.Write(p)
	}
	return hex.AppendEncode(nil, mac.Sum(nil))
}

func rawOr(raw json.RawMessage, v any) (json.RawMessage, error) {
	if raw != nil {
		return raw, nil
	}
	return json.Marshal(v)
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}

func isObject(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// newID gives 128 random bits in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
