package campaign

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/rooflab/rooflab/campaign/load"
)

// Limits protect the server and this machine. Zero values are the defaults named here.
type Limits struct {
	Streams    int           // streams of one load; 256
	Time       time.Duration // of one round; 30 minutes
	TraceBytes int64         // of one round's traces, all ranks together; 4 GB
}

// Defaults of Limits.
const (
	defaultStreams    = 256
	defaultTime       = 30 * time.Minute
	defaultTraceBytes = 4e9
)

// fill fills in what o leaves open: from $ROOFLAB_MAX_STREAMS, $ROOFLAB_MAX_SECONDS and $ROOFLAB_MAX_TRACE_BYTES, else the defaults.
func (l Limits) fill() (Limits, error) {
	streams, seconds := int64(l.Streams), int64(0)
	for _, v := range []struct {
		name      string
		to        *int64
		otherwise int64
		open      bool
	}{
		{"ROOFLAB_MAX_STREAMS", &streams, defaultStreams, l.Streams == 0},
		{"ROOFLAB_MAX_SECONDS", &seconds, int64(defaultTime / time.Second), l.Time == 0},
		{"ROOFLAB_MAX_TRACE_BYTES", &l.TraceBytes, defaultTraceBytes, l.TraceBytes == 0},
	} {
		if !v.open {
			continue
		}
		*v.to = v.otherwise
		text := os.Getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || v.to == &seconds && n > int64(math.MaxInt64/time.Second) {
			return l, fmt.Errorf("%s=%q: give a whole number above 0", v.name, text)
		}
		*v.to = n
	}
	l.Streams = int(streams)
	if seconds > 0 {
		l.Time = time.Duration(seconds) * time.Second
	}
	if l.Streams > load.MaxStreams {
		return l, fmt.Errorf("a limit of %d streams: one process makes at most %d", l.Streams, load.MaxStreams)
	}
	return l, nil
}
