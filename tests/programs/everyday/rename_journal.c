// Directory entries, and a rename that overwrites, through a journal.
//@ args: {dir}/dir
//@ lint: skip (written for prove)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant rename: -DBUG=1
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* directory entries with a rename journal */
#define NENT 6
struct ent {
  char name[28];
  uint32_t ino;
};
struct super {
  char magic[8];
  struct {
    uint32_t state; /* 0 idle, 1 rename running */
    uint32_t from, to;
    struct ent copy;
  } journal __attribute__((aligned(64)));
  struct ent ent[NENT] __attribute__((aligned(64)));
};
static struct super *sb;

#define PERSIST(x) persist(&(x), sizeof(x))
static void persist(const void *addr, size_t len) {
  const char *p = (const char *)((uintptr_t)addr & ~(uintptr_t)63);
  for (; p < (const char *)addr + len; p += 64)
    _mm_clflushopt((void *)p);
  _mm_sfence();
}

static int find(const char *name) {
  for (int i = 0; i < NENT; i++)
    if (sb->ent[i].ino && strcmp(sb->ent[i].name, name) == 0)
      return i;
  errno = ENOENT;
  return -1;
}

static int create(const char *name, uint32_t ino) {
  for (const char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '.') {
      errno = EINVAL;
      return -1;
    }
  for (int i = 0; i < NENT; i++)
    if (!sb->ent[i].ino) {
      memset(sb->ent[i].name, 0, sizeof sb->ent[i].name);
      strcpy(sb->ent[i].name, name);
      PERSIST(sb->ent[i].name);
      sb->ent[i].ino = ino;
      PERSIST(sb->ent[i].ino);
      return i;
    }
  errno = ENOSPC;
  return -1;
}

static void finish_rename(void) {
  sb->ent[sb->journal.to] = sb->journal.copy;
  PERSIST(sb->ent[sb->journal.to]);
  if (sb->journal.from != sb->journal.to) {
    sb->ent[sb->journal.from].ino = 0;
    PERSIST(sb->ent[sb->journal.from].ino);
  }
  sb->journal.state = 0;
  PERSIST(sb->journal.state);
}

static int rename_entry(const char *from, const char *to) {
  int f = find(from), t = find(to);
  if (f < 0)
    return -1;
  if (t < 0)
    t = f;
  sb->journal.from = (uint32_t)f;
  sb->journal.to = (uint32_t)t;
  sb->journal.copy = sb->ent[f];
  memset(sb->journal.copy.name, 0, sizeof sb->journal.copy.name);
  strcpy(sb->journal.copy.name, to);
#if BUG != 1
  PERSIST(sb->journal);
  sb->journal.state = 1;
  PERSIST(sb->journal.state);
#endif
  finish_rename();
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "dir.img", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096) < 0) {
    perror("image");
    return 1;
  }
  sb = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (sb == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  if (memcmp(sb->magic, "DIRFS01", 8) != 0) {
    memcpy(sb->magic, "DIRFS01", 8);
    PERSIST(sb->magic);
  }
  if (sb->journal.state == 1)
    finish_rename();
  /* at most one of "a.txt" and "b.txt" is inode 1, never lost once both were created */
  int seen2 = 0, seen1 = 0;
  for (int i = 0; i < NENT; i++) {
    if (sb->ent[i].ino == 1)
      seen1++;
    if (sb->ent[i].ino == 2)
      seen2++;
    if (sb->ent[i].ino && sb->ent[i].name[0] == 0) {
      fprintf(stderr, "entry %d has no name\n", i);
      return 4;
    }
  }
  if (seen2 > 1 || seen1 > 1) {
    fprintf(stderr, "duplicate inode\n");
    return 5;
  }
  if (seen1 == 0 && seen2 == 0) {
    if (create("a.txt", 1) < 0 || create("b.txt", 2) < 0)
      return 6;
    if (rename_entry("b.txt", "a.txt") < 0)
      return 7;
  }
  return 0;
}
