package kineto

import "fmt"

// TruncatedError says that a file ends, or becomes unreadable, before its end. What was read before is in the Rank beside it.
type TruncatedError struct {
	File   string
	Offset int64 // bytes of JSON read
	Events int   // complete events read
	GPU    int   // GPU events among them
	CPU    int   // operators of the CPU, where these are analysed because there are no GPU events
	Cause  string
	Hint   string
}

func (e *TruncatedError) Error() string {
	left := "the figures cover only these"
	if e.GPU == 0 && e.CPU == 0 {
		left = "no GPU event before that"
	}
	return fmt.Sprintf("read %s: %s after %d complete events (%d bytes of JSON); %s; %s", e.File, e.Cause, e.Events, e.Offset, left, e.Hint)
}

// NoGPUError says that a file is a trace but holds no GPU events. The Rank beside it holds the steps.
type NoGPUError struct {
	File   string
	Events int
}

func (e *NoGPUError) Error() string {
	return fmt.Sprintf("read %s: %d events and no GPU events (kernel, gpu_memcpy, gpu_memset); profile a worker with CUDA activity on, not the front end", e.File, e.Events)
}

// syntaxError is a place where the text is not JSON.
type syntaxError struct {
	offset int64
	text   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.offset, e.text) }

// limitError is an input that is refused because reading it would take memory or time that no real trace takes.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

const (
	bombRatio = 500       // times that gzip data may unpack to
	bombSize  = 256 << 20 // bytes of JSON from which on that is looked at
)

var errTooDeep = &limitError{fmt.Sprintf("values are nested more than %d deep; this is no profiler trace, or it is damaged", maxDepth)}

// tooLarge names the limit as the command line does.
func tooLarge(limit int) error {
	size := fmt.Sprintf("%d bytes", limit)
	if limit >= 1<<20 && limit%(1<<20) == 0 {
		size = fmt.Sprintf("%d MB", limit>>20)
	}
	return &limitError{"one event is larger than " + size + "; this is no profiler trace, or it is damaged; --max-event-bytes raises the limit"}
}
