// A program that forks: its children use the same file, and are followed. What orders them is what they wait for.
//@ args: {dir}/pool
//@ lint: skip (about processes)
//@ prove: skip (about processes)
//@ variant child: -DCHILD
//@ check: clean
//@ variant child-bad: -DCHILD -DBAD
//@ check: recovery-fails at data
//@ variant parent-commits: -DPARENT_COMMITS
//@ check: clean
//@ variant parent-commits-bad: -DPARENT_COMMITS -DBAD
//@ check: recovery-fails at data
//@ variant commands: -DCOMMANDS
//@ check: clean
//@ variant commands-bad: -DCOMMANDS -DBAD
//@ check: recovery-fails at data
//@ variant daemon: -DDAEMON
//@ check: clean
//@ variant daemon-bad: -DDAEMON -DBAD
//@ check: recovery-fails at data
//@ variant library-daemon: -DLIBRARY_DAEMON
//@ check: clean
//@ variant library-daemon-bad: -DLIBRARY_DAEMON -DBAD
//@ check: recovery-fails at data
//@ variant grandchild: -DGRANDCHILD
//@ check: clean
//@ variant grandchild-bad: -DGRANDCHILD -DBAD
//@ check: recovery-fails at data
//@ variant recovery-forks: -DRECOVERY_FORKS
//@ check: clean
//@ variant recovery-forks-bad: -DRECOVERY_FORKS -DBAD
//@ check: recovery-fails at data
//@ variant spins: -DSPINS
//@ check: unknown (processes that it forked use persistent memory at the same time)
//@ variant workers: -DWORKERS
//@ check: unknown (processes that it forked use persistent memory at the same time)
//@ variant workers-bad: -DWORKERS -DBAD
//@ check: recovery-fails at data
//@ check: unknown (processes that it forked use persistent memory at the same time)
//@ variant exec: -DEXEC
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct pool {
  _Alignas(64) long data;
  _Alignas(64) long other;
  _Alignas(64) long ready;
};

static struct pool *pool;

static void write_data(void) {
  pool->data = 42; // MARK: data
#ifndef BAD
  crashproof_persist(&pool->data, sizeof pool->data);
#endif
}

static void commit(void) {
  pool->ready = 1;
  crashproof_persist(&pool->ready, sizeof pool->ready);
}

static void is_whole(void) {
  if (pool->ready)
    crashproof_assert(pool->data == 42);
}

// Commands come through one pipe, answers through another.
static void serve(int commands, int answers) {
  for (char command; read(commands, &command, 1) == 1;) {
    if (command == 'd')
      write_data();
    else
      commit();
    crashproof_assert(write(answers, "k", 1) == 1);
  }
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#ifdef RECOVERY_FORKS
  if (fork() == 0) {
    is_whole();
    _exit(0);
  }
  int status;
  crashproof_assert(wait(&status) > 0);
  if (status)
    return 1;
#else
  is_whole();
#endif
  if (pool->ready)
    return 0;
#ifdef CHILD
  pid_t child = fork();
  if (child == 0) {
    write_data();
    commit();
    _exit(0);
  }
  crashproof_assert(waitpid(child, 0, 0) == child && pool->ready == 1);
#elif defined PARENT_COMMITS
  if (fork() == 0) {
    write_data();
    exit(0);
  }
  wait(0);
  crashproof_assert(pool->data == 42);
  commit();
#elif defined COMMANDS
  int commands[2], answers[2];
  char answer;
  crashproof_assert(pipe(commands) == 0 && pipe(answers) == 0);
  if (fork() == 0) {
    close(commands[1]);
    serve(commands[0], answers[1]);
    _exit(0);
  }
  close(commands[0]);
  for (const char *command = "dc"; *command; command++)
    crashproof_assert(write(commands[1], command, 1) == 1 && read(answers[0], &answer, 1) == 1);
  close(commands[1]);
  wait(0);
#elif defined DAEMON
  if (fork())
    return 0;
  setsid();
  write_data();
  commit();
#elif defined LIBRARY_DAEMON
  crashproof_assert(daemon(1, 1) == 0);
  write_data();
  commit();
#elif defined GRANDCHILD
  if (fork() == 0) {
    if (fork() == 0) {
      write_data();
      _exit(0);
    }
    wait(0);
    _exit(0);
  }
  wait(0);
  commit();
#elif defined RECOVERY_FORKS
  write_data();
  commit();
#elif defined SPINS
  // Waits for the child without the kernel's help.
  if (fork() == 0) {
    write_data();
    pool->other = 1;
    crashproof_persist(&pool->other, sizeof pool->other);
    _exit(0);
  }
  while (!*(volatile long *)&pool->other)
    ;
  wait(0);
  commit();
#elif defined WORKERS
  if (fork() == 0) {
    write_data();
    _exit(0);
  }
  if (fork() == 0) {
    pool->other = 1;
    crashproof_persist(&pool->other, sizeof pool->other);
    _exit(0);
  }
  while (wait(0) > 0)
    ;
  commit();
#elif defined EXEC
  if (fork() == 0) {
    execlp("true", "true", (char *)0);
    _exit(127);
  }
  write_data();
  wait(0);
  commit();
#endif
  return 0;
}
