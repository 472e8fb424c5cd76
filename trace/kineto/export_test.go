package kineto

import (
	"io"

	"github.com/rooflab/rooflab/trace"
)

// ReadChunks is Read with chunks of another size, so that small inputs cross their borders.
func ReadChunks(r io.Reader, name string, size int) (*trace.Rank, error) {
	return Options{}.read(r, name, 0, size)
}

// DecodeQuick and DecodeExact decode one event each in its way. n is 0 when the quick way leaves the event to the exact one.
func DecodeQuick(event []byte) (r *trace.Rank, n int) {
	var b trace.Builder
	var d decoder
	d.init(&b, func() float64 { return 0 })
	n = d.quick(event)
	return b.Build(), n
}

func DecodeExact(event []byte) *trace.Rank {
	var b trace.Builder
	var d decoder
	d.init(&b, func() float64 { return 0 })
	d.event(event)
	return b.Build()
}
