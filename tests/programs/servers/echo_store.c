// A server in an event loop keeps what it is sent in a mapped file; a client sends it two numbers. With WORKERS, threads do
// the work. Recovery is the server itself: it has recovered when it waits for clients.
//@ prove: skip (prove has no sockets)
//@ lint: skip (what the kernel writes is not followed)
//@ variant good: -DGOOD -DPORT=46101
//@ flags check: --client "{program} client"
//@ args: {dir}/pool
//@ check: clean
//@ variant lost: -DPORT=46102
//@ flags check: --client "{program} client"
//@ args: {dir}/pool
//@ check: fails at VALUE
//@ variant workers: -DGOOD -DWORKERS -DPORT=46103
//@ flags check: --client "{program} client"
//@ args: {dir}/pool
//@ check: clean
//@ variant asked: -DGOOD -DPORT=46104
//@ flags check: --client "{program} client" --recovered "{program} client"
//@ args: {dir}/pool
//@ check: clean
#include <arpa/inet.h>
#include <crashproof.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct pool {
  long value;
  long check __attribute__((aligned(64)));
};

static struct pool *pool;

static struct sockaddr_in address(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int client(void) {
  for (long number = 1; number <= 2; number++) {
    struct sockaddr_in to = address();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    long answer = 0;
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || write(fd, &number, sizeof number) != sizeof number ||
        read(fd, &answer, sizeof answer) != sizeof answer || answer != number)
      return 1;
    close(fd);
  }
  return 0;
}

static void keep(long number) {
  pool->value = number; // MARK: VALUE
#ifdef GOOD
  crashproof_persist(&pool->value, sizeof pool->value);
#endif
  pool->check = number;
  crashproof_persist(&pool->check, sizeof pool->check);
}

static void serve(int fd) {
  long number;
  if (read(fd, &number, sizeof number) == sizeof number) {
    keep(number);
    if (write(fd, &number, sizeof number) != sizeof number)
      _exit(9);
  }
  close(fd);
}

#ifdef WORKERS
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int queue[16], queued;

static void *work(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (!queued)
      pthread_cond_wait(&more, &lock);
    int fd = queue[--queued];
    serve(fd);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}
#endif

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "client") == 0)
    return client();
  int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 4096) != 0)
    return 2;
  pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  crashproof_assert(pool->value >= pool->check);
#ifdef WORKERS
  pthread_t threads[2];
  for (int thread = 0; thread < 2; thread++)
    pthread_create(&threads[thread], 0, work, 0);
#endif
  struct sockaddr_in here = address();
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 8) != 0)
    return 3;
  int poll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    if (epoll_wait(poll, &event, 1, -1) < 1)
      continue;
    int fd = accept(listener, 0, 0);
#ifdef WORKERS
    pthread_mutex_lock(&lock);
    queue[queued++] = fd;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
#else
    serve(fd);
#endif
  }
}
