package nbformat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// givenID is the id of a cell as it stands in the file, nil when it is missing.
type givenID struct {
	cell int // from 1, malformed cells counted too
	raw  json.RawMessage
}

// ids gives every cell a valid and unique id. Good ids stay; of several equal ones the first keeps it.
// Before 4.5 cells had none, so making them is no repair worth a word.
func (r *reader) ids(cells []Cell, given []givenID, minor int) {
	used := map[string]int{} // id -> cell
	var missing []string
	for i, g := range given {
		id, ok := stringOf(g.raw)
		switch {
		case ok && validID(id) && used[id] == 0:
			cells[i].ID = id
			used[id] = g.cell
		case minor < 5:
		case g.raw == nil:
			missing = append(missing, strconv.Itoa(g.cell))
		case ok && validID(id):
			r.repaired("cell %d: id %q is used by cell %d too; got a new one", g.cell, id, used[id])
		default:
			r.repaired("cell %d: id %s is not 1 to 64 of A-Z a-z 0-9 - _; got a new one", g.cell, g.raw)
		}
	}
	if len(missing) > 0 {
		r.repaired("required \"id\" is missing, made from the content: cell %s", strings.Join(missing, ", "))
	}
	for i := range cells {
		if cells[i].ID == "" {
			cells[i].ID = NewID(&cells[i], func(id string) bool { return used[id] != 0 })
			used[cells[i].ID] = given[i].cell
		}
	}
}

// NewID makes an id from a cell's type and source: the same cell gets the same id in every run. Cells of equal content
// are told apart by their order; taken reports the ids that are in use.
func NewID(c *Cell, taken func(id string) bool) string {
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", c.Type, c.Source, n))
		if id := hex.EncodeToString(sum[:4]); !taken(id) {
			return id
		}
	}
}

func validID(id string) bool {
	for _, c := range id {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}
