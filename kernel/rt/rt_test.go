package rt

import (
	"errors"
	"runtime"
	"testing"
)

func hooks(t testing.TB) chan struct{} {
	stop := make(chan struct{})
	StoppedFn = func() <-chan struct{} { return stop }
	Goexit = runtime.Goexit
	t.Cleanup(func() { StoppedFn, Goexit = nil, nil })
	return stop
}

func TestBlockedOperationsEndWhenStopped(t *testing.T) {
	for name, f := range map[string]func(){
		"recv":          func() { Recv(make(chan int)) },
		"recv of nil":   func() { Recv[int](nil) },
		"recv2":         func() { Recv2(make(chan string)) },
		"send":          func() { To(make(chan int)).Send(1) },
		"send to a nil": func() { To[int](nil).Send(1) },
	} {
		t.Run(name, func(t *testing.T) {
			stop := hooks(t)
			ended := make(chan bool)
			go func() {
				returned := false
				defer func() { ended <- returned || recover() != nil }()
				f()
				returned = true
			}()
			close(stop)
			if <-ended {
				t.Error("the goroutine went on after the stop")
			}
		})
	}
}

func TestSendConvertsLikeAStatement(t *testing.T) {
	hooks(t)
	e := make(chan error, 2)
	To(e).Send(errors.ErrUnsupported)
	To(e).Send(nil)
	if Recv(e) != errors.ErrUnsupported || Recv(e) != nil {
		t.Error("an interface value arrived changed")
	}
	type named chan any
	n := make(named, 1)
	To(n).Send(7)
	if v, ok := Recv2(n); v != 7 || !ok {
		t.Errorf("got %v %v", v, ok)
	}
	close(n)
	if v, ok := Recv2(n); v != nil || ok {
		t.Errorf("a closed channel gave %v %v", v, ok)
	}
	defer func() {
		if recover() == nil {
			t.Error("a send to a closed channel does not panic")
		}
	}()
	To(n).Send(1)
}

// Buffered: the fast path. Unbuffered: mostly the slow one.
func BenchmarkChannel(b *testing.B) {
	hooks(b)
	for _, size := range []int{128, 0} {
		name := map[int]string{128: "buffered", 0: "unbuffered"}[size]
		b.Run(name+"/plain", func(b *testing.B) {
			c := make(chan int, size)
			go func() {
				for i := range b.N {
					c <- i
				}
			}()
			for range b.N {
				<-c
			}
		})
		b.Run(name+"/rt", func(b *testing.B) {
			c := make(chan int, size)
			go func() {
				for i := range b.N {
					To(c).Send(i)
				}
			}()
			for range b.N {
				Recv(c)
			}
		})
	}
	b.Run("alone/plain", func(b *testing.B) {
		c := make(chan int, 1)
		for i := range b.N {
			c <- i
			<-c
		}
	})
	b.Run("alone/rt", func(b *testing.B) {
		c := make(chan int, 1)
		for i := range b.N {
			To(c).Send(i)
			Recv(c)
		}
	})
}
