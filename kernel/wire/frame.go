package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits on what a peer may send. They bound memory; a Jupyter message stays far below them.
const (
	maxFrame  = 1 << 30 // bytes in one frame
	maxFrames = 1 << 16 // frames in one message
)

// Bits of the byte that starts a frame.
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
)

var errProtocol = errors.New("zmtp protocol violation")

// frame is one ZMTP frame: a part of a message, or a command.
type frame struct {
	flags byte
	body  []byte
}

func (f frame) more() bool    { return f.flags&flagMore != 0 }
func (f frame) command() bool { return f.flags&flagCommand != 0 }

// appendFrame appends the encoded frame to b.
func appendFrame(b []byte, f frame) []byte {
	flags := f.flags &^ flagLong
	if len(f.body) <= 255 {
		b = append(b, flags, byte(len(f.body)))
	} else {
		b = append(b, flags|flagLong)
		b = binary.BigEndian.AppendUint64(b, uint64(len(f.body)))
	}
	return append(b, f.body...)
}

// readFrame reads one frame. A length the peer only claims costs no memory: the body grows as bytes arrive.
func readFrame(r *bufio.Reader) (frame, error) {
	flags, err := r.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		return frame{}, fmt.Errorf("%w: reserved bits in frame flags %#02x", errProtocol, flags)
	}
	var size uint64
	if flags&flagLong == 0 {
		n, err := r.ReadByte()
		if err != nil {
			return frame{}, noEOF(err)
		}
		size = uint64(n)
	} else {
		var n [8]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return frame{}, noEOF(err)
		}
		size = binary.BigEndian.Uint64(n[:])
	}
	if size > maxFrame {
		return frame{}, fmt.Errorf("%w: frame of %d bytes, the limit is %d", errProtocol, size, maxFrame)
	}
	body, err := readBody(r, int(size))
	return frame{flags: flags, body: body}, err
}

func readBody(r io.Reader, size int) ([]byte, error) {
	const trusted = 1 << 20 // allocated before the bytes are seen
	if size <= trusted {
		body := make([]byte, size)
		_, err := io.ReadFull(r, body)
		return body, noEOF(err)
	}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(size)); err != nil {
		return nil, noEOF(err)
	}
	return buf.Bytes(), nil
}

// noEOF turns an end in the middle of something into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// command is a named ZMTP command such as READY or PING.
type command struct {
	name string
	data []byte
}

func (c command) frame() frame {
	body := append([]byte{byte(len(c.name))}, c.name...)
	return frame{flags: flagCommand, body: append(body, c.data...)}
}

func parseCommand(body []byte) (command, error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 {
		return command{}, fmt.Errorf("%w: command without a complete name", errProtocol)
	}
	n := 1 + int(body[0])
	return command{name: string(body[1:n]), data: body[n:]}, nil
}

// appendProperty appends one property of a READY command.
func appendProperty(b []byte, name string, value []byte) []byte {
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// parseProperties reads the properties of a READY command. Names are case-insensitive and given in lower case.
func parseProperties(data []byte) (map[string][]byte, error) {
	props := map[string][]byte{}
	for len(data) > 0 {
		n := int(data[0])
		if len(data) < 1+n+4 {
			return nil, fmt.Errorf("%w: property name cut off", errProtocol)
		}
		name := string(bytes.ToLower(data[1 : 1+n]))
		data = data[1+n:]
		size := binary.BigEndian.Uint32(data)
		data = data[4:]
		if uint64(size) > uint64(len(data)) {
			return nil, fmt.Errorf("%w: property %q cut off", errProtocol, name)
		}
		props[name] = data[:size]
		data = data[size:]
	}
	return props, nil
}
