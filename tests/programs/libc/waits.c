// What calls that wait say of descriptors, left in PM; and results that change only the end of a word.
//@ prove: skip (descriptors)
//@ lint: skip (what the kernel leaves)
//@ variant good: -DGOOD
//@ check: clean
//@ variant unflushed:
//@ check: fails at WAITS
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <crashproof.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

struct root {
  long done;
  struct pollfd polled[2] __attribute__((aligned(64)));
  fd_set set __attribute__((aligned(64)));
  struct epoll_event event __attribute__((aligned(64)));
  struct in6_addr address __attribute__((aligned(64)));
  char name[64] __attribute__((aligned(64)));
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (root->done) {
    crashproof_assert(root->polled[0].revents == POLLIN && root->polled[1].revents == POLLIN);
    crashproof_assert(FD_ISSET(root->polled[0].fd, &root->set));
    crashproof_assert(root->event.events == EPOLLIN && root->event.data.u64 == 7);
    crashproof_assert(root->address.s6_addr[15] == 1);
    crashproof_assert(memcmp(root->name, "/tmp/waits-", 11) == 0 && root->name[11] != 'X');
    return 0;
  }
  int ends[2];
  crashproof_assert(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
  struct timespec none = {0, 0};
  root->polled[0] = root->polled[1] = (struct pollfd){.fd = ends[0], .events = POLLIN};
  crashproof_persist(root->polled, sizeof root->polled);
  crashproof_assert(poll(root->polled, 1, 0) == 1);
  crashproof_assert(ppoll(root->polled + 1, 1, &none, NULL) == 1); // MARK: WAITS
#ifdef GOOD
  crashproof_persist(root->polled, sizeof root->polled);
#endif
  FD_ZERO(&root->set);
  FD_SET(ends[0], &root->set);
  crashproof_assert(pselect(ends[0] + 1, &root->set, NULL, NULL, &none, NULL) == 1);
  crashproof_persist(&root->set, sizeof root->set);
  int all = epoll_create1(0);
  struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 7};
  crashproof_assert(epoll_ctl(all, EPOLL_CTL_ADD, ends[0], &wanted) == 0);
  crashproof_assert(epoll_wait(all, &root->event, 1, 0) == 1);
  crashproof_persist(&root->event, sizeof root->event);
  crashproof_assert(inet_pton(AF_INET6, "::1", &root->address) == 1);
  crashproof_persist(&root->address, sizeof root->address);
  strcpy(root->name, "/tmp/waits-XXXXXX");
  int file = mkstemp(root->name);
  crashproof_assert(file >= 0 && unlink(root->name) == 0);
  crashproof_persist(root->name, sizeof root->name);
  root->done = 1;
  crashproof_persist(&root->done, sizeof root->done);
  return 0;
}
