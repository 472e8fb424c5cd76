package phases

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rooflab/rooflab/internal/flock"
)

func lockPath(dir string) string { return filepath.Join(dir, ".journal", "lock") }

// lock keeps a second run out of a campaign's folder: two loads at once would spoil the figures of both.
func lock(dir string) (unlock func(), err error) {
	unlock, err = flock.Take(lockPath(dir))
	if errors.Is(err, flock.ErrHeld) {
		return nil, fmt.Errorf("another run works in %s; wait for it, or give another folder", dir)
	}
	return unlock, err
}

// Working says whether a run works in a campaign's folder now.
func Working(dir string) bool { return flock.Held(lockPath(dir)) }
