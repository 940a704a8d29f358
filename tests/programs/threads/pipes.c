// Threads that talk through the kernel are ordered by that: what was persistent before a byte is sent is so when it arrives.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules)
//@ variant pipe:
//@ check: clean
//@ variant socket: -DSOCKET
//@ check: clean
//@ variant polled: -DPOLLED
//@ check: clean
//@ variant early: -DEARLY
//@ check: recovery-fails at data
#include <crashproof.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));
static int ends[2];

static void *receive(void *unused) {
  char byte;
#ifdef POLLED
  struct pollfd wanted = {ends[0], POLLIN, 0};
  if (poll(&wanted, 1, -1) != 1)
    return unused;
#endif
#ifdef SOCKET
  long got = recv(ends[0], &byte, 1, 0);
#else
  long got = read(ends[0], &byte, 1);
#endif
  if (got == 1) {
    done = 1;
    crashproof_persist(&done, sizeof done);
  }
  return unused;
}

static void signal_it(void) {
#ifdef SOCKET
  (void)!send(ends[1], "x", 1, 0);
#else
  (void)!write(ends[1], "x", 1);
#endif
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!done || data);
    return 0;
  }
#ifdef SOCKET
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
    return 1;
#else
  if (pipe(ends))
    return 1;
#endif
  pthread_t receiver;
  pthread_create(&receiver, 0, receive, 0);
#ifdef EARLY
  signal_it();
#endif
  data = 1; // MARK: data
  crashproof_persist(&data, sizeof data);
#ifndef EARLY
  signal_it();
#endif
  pthread_join(receiver, 0);
  return 0;
}
