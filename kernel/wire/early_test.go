package wire

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// What a restarted kernel publishes before a front end's old subscription is back must reach it.
func TestSubscriberOfANewPubMissesNothing(t *testing.T) {
	pub, err := Listen(Pub, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	addr := fmt.Sprintf("127.0.0.1:%d", pub.Port())
	for _, word := range []string{"busy", "idle"} {
		if err := pub.Send([][]byte{[]byte("status"), []byte(word)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // each subscriber gets them, once
		sub := dialSub(t, addr)
		expectWords(t, sub, "busy", "idle")
	}
	late := dialSub(t, addr)
	expectWords(t, late, "busy", "idle")
	if err := pub.Send([][]byte{[]byte("status"), []byte("next")}); err != nil {
		t.Fatal(err)
	}
	expectWords(t, late, "next")
}

// A subscriber that comes later hears only what is said from then on, as ZeroMQ has it.
func TestOldPubRepeatsNothing(t *testing.T) {
	pub, err := Listen(Pub, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	pub.mu.Lock()
	pub.early.until = time.Now().Add(-time.Second)
	pub.mu.Unlock()
	pub.Send([][]byte{[]byte("status"), []byte("old")})
	sub := dialSub(t, fmt.Sprintf("127.0.0.1:%d", pub.Port()))
	for len(pub.audience([][]byte{[]byte("status")})) == 0 { // until the subscription has arrived
		time.Sleep(time.Millisecond)
	}
	pub.Send([][]byte{[]byte("status"), []byte("new")})
	expectWords(t, sub, "new")
}

func dialSub(t *testing.T, addr string) *Socket {
	t.Helper()
	sub, err := Dial(t.Context(), Sub, addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Close() })
	if err := sub.Subscribe(""); err != nil {
		t.Fatal(err)
	}
	return sub
}

func expectWords(t *testing.T, sub *Socket, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, want := range words {
		frames, err := sub.Recv(ctx)
		if err != nil || len(frames) != 2 || string(frames[1]) != want {
			t.Fatalf("got %q, %v, want %q", frames, err, want)
		}
	}
}
