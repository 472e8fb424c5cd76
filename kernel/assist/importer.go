package assist

import (
	"errors"
	"go/types"
	"time"

	"github.com/rooflab/rooflab/kernel/session"
)

var errLate = errors.New("not read yet")

// importer reads packages for a cell that is being written. It waits for the archives only as long as a person would;
// what comes later is there the next time.
type importer struct {
	state *session.View
	left  time.Duration
}

func (m *importer) Import(path string) (*types.Package, error) {
	if p, ok := m.state.Imported(path); ok {
		return p, nil
	}
	if m.left <= 0 {
		return nil, errLate
	}
	type answer struct {
		pkg *types.Package
		err error
	}
	c := make(chan answer, 1)
	go func() {
		p, err := m.state.Import(path)
		c <- answer{p, err}
	}()
	start := time.Now()
	defer func() { m.left -= time.Since(start) }()
	select {
	case a := <-c:
		return a.pkg, a.err
	case <-time.After(m.left):
		return nil, errLate
	}
}
