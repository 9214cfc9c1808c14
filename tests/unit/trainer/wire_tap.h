// For tests: somebody between two leaders, who forwards their bytes and can read, change and keep
// them. A process of its own; it ends with the connections.
#ifndef MUSTER_TESTS_TRAINER_WIRE_TAP_H
#define MUSTER_TESTS_TRAINER_WIRE_TAP_H

#include <stddef.h>
#include <sys/types.h>

enum { TAP_KEPT = 1 << 20 };

enum tap_manner {
    TAP_LISTENS, // forwards everything and keeps the first TAP_KEPT bytes of both directions
    TAP_CHANGES, // flips one bit of the first connection, towards the callee, after `after` bytes
    TAP_REPLAYS, // keeps the last message of the first greeting from the callee, connects anew and
                 // sends the recorded messages there
};

struct tap { // shared by all processes that are forked later
    enum tap_manner manner;
    size_t after;
    unsigned char keys[2][32]; // for the tests: the keys that must not be heard
    size_t kept;
    unsigned char bytes[TAP_KEPT];
};

struct tap *tap_new(enum tap_manner manner); // ends with the process
// Forks the tap. Returns the port at which it is to be called instead of `port`, on 127.0.0.1.
int tap_start(struct tap *t, int port);
int connect_to_port(int port); // on 127.0.0.1; -1: nobody listens

#endif
