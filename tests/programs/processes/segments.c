// System V shared memory ends with the machine: a run after a crash finds none that an earlier one has left, under a key or
// without, however many there were.
//@ args: {dir}/pool
//@ prove: skip (prove has no processes)
//@ lint: skip (what a key means is not known to lint)
//@ variant private: -DKEY=IPC_PRIVATE
//@ check: clean
//@ variant key: -DKEY=0x63726173
//@ check: clean
//@ variant removed: -DKEY=0x63726173 -DREMOVE
//@ check: clean
//@ variant lost: -DKEY=0x63726173 -DLOSE
//@ check: recovery-fails at VALUE
#include <crashproof.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

struct pool {
  long value;
  _Alignas(64) long valid;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  crashproof_assert(!pool->valid || pool->value == 7);
  int segment = shmget(KEY, 4096, IPC_CREAT | 0600);
  crashproof_assert(segment >= 0);
  long *answer = shmat(segment, NULL, 0);
  crashproof_assert(answer != (void *)-1);
  // Fresh memory.
  crashproof_assert(*answer == 0);
  pid_t child = fork();
  if (child == 0) {
    long *own = shmat(KEY == IPC_PRIVATE ? segment : shmget(KEY, 4096, 0600), NULL, 0);
    crashproof_assert(own != (void *)-1);
    *own = 7;
    _exit(0);
  }
  int status = 0;
  crashproof_assert(waitpid(child, &status, 0) == child && status == 0 && *answer == 7);
#ifdef REMOVE
  crashproof_assert(shmctl(segment, IPC_RMID, NULL) == 0);
#endif
  pool->value = *answer; // MARK: VALUE
#ifndef LOSE
  crashproof_persist(&pool->value, sizeof pool->value);
#endif
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  return 0;
}
