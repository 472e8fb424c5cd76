// Package wire speaks the Jupyter messaging protocol 5.3 over ZMTP 3.0, the wire format of ZeroMQ: sockets for both
// sides (ROUTER, PUB, REP for a kernel; DEALER, SUB, REQ for a client), signed messages, and connection files.
//
// It uses TCP and the NULL mechanism, which is what Jupyter kernels on one machine use. No message is dropped: a queue
// that is full makes the sender wait, and a peer that keeps senders waiting and takes nothing for thirty seconds is
// disconnected as a whole.
// Frames have a size limit, handshakes a deadline, and nothing a peer sends can end the process.
//
// Sources: ZMTP 3.0 (rfc.zeromq.org/spec/23) and the Jupyter client documentation, "Messaging in Jupyter".
//
// It does not know what the messages mean, does not reconnect, and does no encryption (CURVE) or ipc transport.
package wire
