// A toy file system: inodes, a directory of names, a block bitmap; creation in order, with goto for errors.
//@ args: {dir}/fs
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant inode: -DBUG=1
//@ check: recovery-fails at inode
//@ lint: unflushed-write at mode
//@ lint: unflushed-write at size
//@ lint: unflushed-write at inode
//@ variant dirent: -DBUG=2
//@ check: recovery-fails at name
//@ lint: publish-before-persist at name
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct inode {
  uint32_t mode;
  uint32_t links;
  uint64_t size;
  uint64_t pad[6];
};
struct dirent {
  uint64_t ino; /* 0: free */
  uint64_t pad[7];
  char name[64];
};
struct fs {
  struct inode inode[4];
  struct dirent dir[4];
};

static struct fs *fs;

enum { F_NONE, F_FENCE };
static void fs_flush(void *buf, uint32_t len, int fence) {
  len += (uintptr_t)buf & 63;
  for (uint32_t i = 0; i < len; i += 64)
    _mm_clflushopt((char *)buf + i);
  if (fence == F_FENCE)
    _mm_sfence();
}

static int find_inode(void) {
  for (int i = 1; i < 4; i++)
    if (fs->inode[i].links == 0)
      return i;
  return -ENOSPC;
}

static int fs_create(const char *name, uint32_t mode) {
  int err = 0;
  struct dirent *de = NULL;
  int ino = find_inode();
  if (ino < 0) {
    err = ino;
    goto out;
  }
  for (int i = 0; i < 4 && !de; i++)
    if (fs->dir[i].ino == 0)
      de = &fs->dir[i];
  if (!de) {
    err = -ENOSPC;
    goto out;
  }
  struct inode *in = &fs->inode[ino];
  in->mode = mode; // MARK: mode
  in->size = 0; // MARK: size
  in->links = 1; // MARK: inode
#if BUG != 1
  fs_flush(in, sizeof *in, F_FENCE);
#endif
  strncpy(de->name, name, sizeof de->name); // MARK: name
#if BUG == 2
  de->ino = ino;
  fs_flush(&de->ino, 8, F_FENCE);
  fs_flush(de->name, sizeof de->name, F_FENCE);
#else
  fs_flush(de->name, sizeof de->name, F_FENCE);
  de->ino = ino;
  fs_flush(&de->ino, 8, F_FENCE);
#endif
out:
  return err;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *fs))
    return 1;
  fs = mmap(NULL, sizeof *fs, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fs == MAP_FAILED)
    return 1;
  for (int i = 0; i < 4; i++)
    if (fs->dir[i].ino) {
      assert(fs->inode[fs->dir[i].ino].links == 1); // MARK: linked
      assert(fs->dir[i].name[0] == 'f'); // MARK: named
    }
  fs_create("f1", 0644);
  fs_create("f2", 0600);
  return 0;
}
