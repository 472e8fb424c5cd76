package nbclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// RecordKey is the key of notebook metadata under which a run leaves its record, as field "run".
const RecordKey = "rooflab"

type status string

const (
	statusRunning  status = "running"
	statusFinished status = "finished"
	statusFailed   status = "failed"
)

// runRecord says how far a run came and of which sources. It holds no times and no paths.
type runRecord struct {
	Source string `json:"source"` // sha256 of kernel name, cell types and sources, with parameters filled in
	Status status `json:"status"`
}

func (r runRecord) store(nb *nbformat.Notebook) error {
	fields := map[string]json.RawMessage{}
	nb.Metadata.Get(RecordKey, &fields) // keeps what others wrote there
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode run record: %w", err)
	}
	fields["run"] = raw
	return nb.Metadata.Set(RecordKey, fields)
}

func readRecord(nb *nbformat.Notebook) runRecord {
	var fields struct{ Run runRecord }
	nb.Metadata.Get(RecordKey, &fields)
	return fields.Run
}

// finished returns the notebook of an earlier run when nothing has changed since it finished, else nil.
func (o *Options) finished(now runRecord) *nbformat.Notebook {
	if !o.Resume || o.Out == "" {
		return nil
	}
	if _, err := os.Stat(o.Out); err != nil {
		return nil // there was no earlier run
	}
	done, _, err := nbformat.ReadFile(o.Out)
	if err != nil {
		o.warn("notebook_resume", fmt.Sprintf("%v: run again", err), "")
		return nil
	}
	record := readRecord(done)
	if record.Status != statusFinished || record.Source != now.Source || sourceHash(done, done.Kernel()) != now.Source {
		return nil
	}
	return done
}

// sourceHash is the hash of all that decides what a run does, as far as the notebook knows it: environment variables
// and the files that cells read are not part of it.
func sourceHash(nb *nbformat.Notebook, kernel string) string {
	h := sha256.New()
	fmt.Fprintf(h, "kernel %q\n", kernel)
	for i := range nb.Cells {
		c := &nb.Cells[i]
		fmt.Fprintf(h, "%q %q %q\n", c.Type, c.Tags(), c.Source)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
