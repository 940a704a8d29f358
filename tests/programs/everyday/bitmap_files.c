// Files of blocks that a bitmap hands out by ffsll; what a crash leaked is given back.
//@ args: {dir}/blocks
//@ check: clean
//@ prove: proved
//@ lint: skip (written for prove)
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 64, BLOCK = 64, FILES = 4 };

struct inode {
  uint32_t live;
  uint32_t nblocks;
  uint8_t block[8];
};

struct fs {
  uint64_t bitmap;
  uint8_t pad[56];
  struct inode inode[FILES];
  uint8_t data[BLOCKS][BLOCK];
};

static struct fs *fs;

static void wb(void *p, size_t n) {
  uintptr_t first = (uintptr_t)p >> 6, last = ((uintptr_t)p + n - 1) >> 6;
  for (uintptr_t l = first; l <= last; l++)
    _mm_clflushopt((void *)(l << 6));
  _mm_sfence();
}

static int alloc_block(void) {
  uint64_t free_bits = ~fs->bitmap;
  int b = ffsll((long long)free_bits);
  if (b == 0)
    return -1;
  b--;
  fs->bitmap |= 1ull << b;
  wb(&fs->bitmap, sizeof fs->bitmap);
  return b;
}

static void free_block(int b) {
  fs->bitmap &= ~(1ull << b);
  wb(&fs->bitmap, sizeof fs->bitmap);
}

static int create(int which, const char *text) {
  struct inode *ino = &fs->inode[which];
  if (ino->live)
    return 0;
  size_t len = strlen(text), done = 0;
  uint32_t n = 0;
  while (done < len && n < 8) {
    int b = alloc_block();
    if (b < 0)
      return -1;
    size_t part = len - done < BLOCK ? len - done : BLOCK;
    memcpy(fs->data[b], text + done, part);
    wb(fs->data[b], part);
    ino->block[n++] = (uint8_t)b;
    done += part;
  }
  ino->nblocks = n;
  wb(ino, sizeof *ino);
  ino->live = 1;
  wb(&ino->live, sizeof ino->live);
  return 0;
}

static void unlink_file(int which) {
  struct inode *ino = &fs->inode[which];
  if (!ino->live)
    return;
  ino->live = 0;
  wb(&ino->live, sizeof ino->live);
  for (uint32_t i = 0; i < ino->nblocks; i++)
    free_block(ino->block[i]);
}

static int fsck(void) {
  uint64_t used = 0;
  for (int f = 0; f < FILES; f++) {
    struct inode *ino = &fs->inode[f];
    if (!ino->live)
      continue;
    if (ino->nblocks == 0 || ino->nblocks > 8)
      return 10 + f;
    for (uint32_t i = 0; i < ino->nblocks; i++) {
      uint64_t bit = 1ull << ino->block[i];
      if (used & bit)
        return 20 + f;
      if (!(fs->bitmap & bit))
        return 30 + f;
      used |= bit;
    }
  }
  /* leaked blocks are given back */
  if (fs->bitmap != used) {
    fs->bitmap = used;
    wb(&fs->bitmap, sizeof fs->bitmap);
  }
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "blocks", O_RDWR | O_CREAT, 0600);
  if (fd < 0) {
    perror("open");
    return 1;
  }
  if (ftruncate(fd, sizeof(struct fs)) < 0) {
    perror("ftruncate");
    return 1;
  }
  fs = mmap(NULL, sizeof(struct fs), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fs == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  int rc = fsck();
  if (rc) {
    fprintf(stderr, "fsck: %d\n", rc);
    return rc;
  }
  create(0, "a short file");
  create(1, "a file that is long enough to need more than one block of sixty-four bytes, really");
  unlink_file(0);
  create(2, "another");
  return fsck();
}
