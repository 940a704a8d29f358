// Functions of the C library on a pool that is mapped at an address of the program's choice: what they store are stores
// of the call, what they return points into the pool, and what lies behind a string is not read with it.
//@ args: {dir}/pool
//@ lint: skip (what is flushed with everything else is not its business)
//@ prove: skip (prove has no addresses of its own for files)
//@ variant all:
//@ check: clean
//@ variant name: -DNAME
//@ check: recovery-fails at name
//@ variant status: -DSTATUS
//@ check: recovery-fails at file
#define _GNU_SOURCE
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BASE ((void *)0x600000000000)

struct pool {
  long done;
  char apart[56];
  char name[64];
  struct stat file;
  char moved[112];
  // The text ends just before a line that is never flushed, and that recovery has no reason to read.
  char text[64];
  long visits[8];
} __attribute__((aligned(64)));

static void fill(struct pool *pool) {
  snprintf(pool->name, sizeof pool->name, "%s-%d", "pool", 17); // MARK: name
#ifndef NAME
  crashproof_persist(pool->name, sizeof pool->name);
#endif
  crashproof_assert(stat("/", &pool->file) == 0); // MARK: file
#ifndef STATUS
  crashproof_persist(&pool->file, sizeof pool->file);
#endif
  strcpy(pool->text, "the value is 41 of many, and the text goes on up to the end.:/");
  memcpy(pool->moved, pool->text, sizeof pool->text);
  crashproof_persist(pool->moved, sizeof pool->moved + sizeof pool->text);
}

static int differs(const void *one, const void *other) {
  return memcmp(one, other, 1);
}

static void look(struct pool *pool) {
  struct stat now;
  crashproof_assert(!strcmp(pool->name, "pool-17") && stat("/", &now) == 0);
  crashproof_assert(pool->file.st_mode == now.st_mode && pool->file.st_ino == now.st_ino);
  crashproof_assert(memchr(pool->text, ':', sizeof pool->text) == pool->text + 60);
  crashproof_assert(strchr(pool->text, ':') == pool->text + 60 && strlen(pool->text) == 62);
  crashproof_assert(strstr(pool->text, "many") == pool->text + 19 && !strncmp(pool->text, pool->moved, 64));
  char *end;
  crashproof_assert(strtol(pool->text + 13, &end, 10) == 41 && end == pool->text + 15);
  crashproof_assert(strtod(pool->text + 13, &end) == 41 && end == pool->text + 15);
  crashproof_assert(bsearch("p", pool->name, 1, 1, differs) == pool->name);
  char word[16];
  int number = 0;
  crashproof_assert(sscanf(pool->name, "%4s-%d", word, &number) == 2 && number == 17);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(BASE, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  crashproof_assert(pool == BASE);
  if (pool->done) {
    look(pool);
    return 0;
  }
  fill(pool);
  pool->visits[0]++;
  pool->done = 1;
  crashproof_persist(&pool->done, sizeof pool->done);
  look(pool);
  return 0;
}
