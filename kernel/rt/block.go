package rt

// What blocks in a cell must end at once when the cell is interrupted, so that no goroutine stays behind and takes a
// value that a later cell has sent. The operations below therefore wait for Stopped as well; each first tries without
// waiting, so that channels keep their speed.

// Stopped returns a channel that is closed when the execution that the calling goroutine belongs to is interrupted.
// It is nil, which is never ready, in a goroutine whose execution has ended. A select without default gets
//
//	case <-rt.Stopped():
//		panic(rt.Halt())
func Stopped() <-chan struct{} { return StoppedFn() }

// Halt ends the calling goroutine. It never returns; it has a result so that panic(rt.Halt()) ends a list of statements.
func Halt() any {
	Goexit()
	return nil
}

// Sleep stands for time.Sleep. The operand must have its type, time.Duration: rt.Sleep[time.Duration](d).
func Sleep[D ~int64](d D) { SleepFn(int64(d)) }

// Recv stands for <-c.
func Recv[T any](c <-chan T) T {
	select {
	case v := <-c:
		return v
	default:
	}
	select {
	case v := <-c:
		return v
	case <-Stopped():
		panic(Halt())
	}
}

// Recv2 stands for <-c with two results.
func Recv2[T any](c <-chan T) (T, bool) {
	select {
	case v, ok := <-c:
		return v, ok
	default:
	}
	select {
	case v, ok := <-c:
		return v, ok
	case <-Stopped():
		panic(Halt())
	}
}

// Sender is a channel that is sent to.
type Sender[T any] struct{ c chan<- T }

// To begins a send: rt.To(c).Send(v) stands for c <- v. The channel alone decides T, so that v is converted as in a
// send statement.
func To[T any](c chan<- T) Sender[T] { return Sender[T]{c} }

// Send is the other half of To.
func (s Sender[T]) Send(v T) {
	select {
	case s.c <- v:
		return
	default:
	}
	select {
	case s.c <- v:
	case <-Stopped():
		panic(Halt())
	}
}
