package wire

import (
	"sync"
	"time"
)

// item is one queued message or command.
type item struct {
	frames  [][]byte
	command bool
}

func (it item) size() int {
	n := 64
	for _, f := range it.frames {
		n += len(f) + 9
	}
	return n
}

func (it item) encode() []byte {
	b := make([]byte, 0, it.size())
	for i, f := range it.frames {
		var flags byte
		if it.command {
			flags = flagCommand
		} else if i < len(it.frames)-1 {
			flags = flagMore
		}
		b = appendFrame(b, frame{flags: flags, body: f})
	}
	return b
}

// queue is a first-in first-out queue bounded in bytes. A push into a full queue waits; one item always fits, however large.
type queue struct {
	mu     sync.Mutex
	change sync.Cond // broadcast on every change of the fields below
	items  []item
	bytes  int
	limit  int
	pushes int  // calls of push that wait for room
	busy   bool // an item was popped and is still being handled
	err    error
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.change.L = &q.mu
	return q
}

// push adds an item, waiting for room. It fails once the queue is closed.
func (q *queue) push(it item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := it.size()
	q.pushes++
	for q.err == nil && len(q.items) > 0 && q.bytes+n > q.limit {
		q.change.Wait()
	}
	q.pushes--
	return q.add(it, n)
}

// full tells whether somebody waits for room.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pushes > 0
}

// tryPush adds an item whatever the limit: for answers a reader must give without waiting for its own peer.
func (q *queue) tryPush(it item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(it, it.size())
}

func (q *queue) add(it item, n int) error {
	if q.err != nil {
		return q.err
	}
	q.items = append(q.items, it)
	q.bytes += n
	q.change.Broadcast()
	return nil
}

// pop takes the first item and waits for one. What was queued before close is still delivered.
// When stop (may be nil) is closed and wake was called, pop gives up with errStopped.
func (q *queue) pop(stop <-chan struct{}) (item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 {
		if q.err != nil {
			return item{}, q.err
		}
		select {
		case <-stop:
			return item{}, errStopped
		default:
		}
		q.change.Wait()
	}
	it := q.items[0]
	q.items[0] = item{}
	q.items = q.items[1:]
	q.bytes -= it.size()
	q.busy = true
	q.change.Broadcast()
	return it, nil
}

// wake makes waiting calls look at their stop channel again.
func (q *queue) wake() {
	q.mu.Lock()
	q.change.Broadcast()
	q.mu.Unlock()
}

// done tells that the item popped last was handled.
func (q *queue) done() {
	q.mu.Lock()
	q.busy = false
	q.change.Broadcast()
	q.mu.Unlock()
}

// close ends the queue: pushes fail with err, pops too once it is empty.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.change.Broadcast()
	}
}

// drain waits until all is handled, the queue is closed, or the time is over.
func (q *queue) drain(limit time.Duration) {
	deadline := time.Now().Add(limit)
	t := time.AfterFunc(limit, q.wake)
	defer t.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && (len(q.items) > 0 || q.busy) && time.Now().Before(deadline) {
		q.change.Wait()
	}
}
