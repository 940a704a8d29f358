// A server with an append-only file, as redis has one: every SET is appended and synced before it is answered, and REWRITE
// replaces the file by a shorter one. A key that was there from the start must always be there.
//@ args: {dir}/store {dir}/store.new
//@ prove: skip (prove has no sockets)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD -DPORT=46111
//@ flags check: --medium disk --setup "{program} create {dir}/store" --client "{program} client" --recovered "{program} ask"
//@ check: clean
//@ variant rename-unsynced: -DPORT=46112
//@ flags check: --medium disk --setup "{program} create {dir}/store" --client "{program} client" --recovered "{program} ask"
//@ check: fails at REWRITTEN
#include <arpa/inet.h>
#include <crashproof.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct record {
  char key[16], value[16];
};

static struct record table[16];
static int used;
static const char *path, *new_path;
static int file;

static void put(const char *key, const char *value) {
  int at = 0;
  while (at < used && strcmp(table[at].key, key) != 0)
    at++;
  used += at == used;
  snprintf(table[at].key, sizeof table[at].key, "%s", key);
  snprintf(table[at].value, sizeof table[at].value, "%s", value);
}

static const char *find(const char *key) {
  for (int at = 0; at < used; at++)
    if (strcmp(table[at].key, key) == 0)
      return table[at].value;
  return "";
}

static void load(void) {
  struct record record;
  file = open(path, O_RDWR | O_CREAT | O_APPEND, 0644);
  crashproof_assert(file >= 0);
  while (read(file, &record, sizeof record) == sizeof record)
    if (record.key[0])
      put(record.key, record.value);
}

static void append(int fd, const struct record *record) {
  crashproof_assert(write(fd, record, sizeof *record) == sizeof *record); // MARK: REWRITTEN
}

static void rewrite(void) {
  int fd = open(new_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
  for (int at = 0; at < used; at++)
    append(fd, &table[at]);
#ifdef GOOD
  crashproof_assert(fsync(fd) == 0);
#endif
  crashproof_assert(rename(new_path, path) == 0);
  close(file);
  file = fd;
}

static struct sockaddr_in address(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int request(const char *text, char *answer) {
  struct sockaddr_in to = address();
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  memset(answer, 0, 32);
  int done = connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && write(fd, text, strlen(text)) > 0 &&
             read(fd, answer, 31) > 0;
  close(fd);
  return done;
}

static void serve(int fd) {
  char text[64] = "", key[16], value[16];
  ssize_t count = read(fd, text, sizeof text - 1);
  if (count <= 0)
    return;
  if (sscanf(text, "SET %15s %15s", key, value) == 2) {
    struct record record = {"", ""};
    snprintf(record.key, sizeof record.key, "%s", key);
    snprintf(record.value, sizeof record.value, "%s", value);
    append(file, &record);
    crashproof_assert(fsync(file) == 0);
    put(key, value);
    crashproof_assert(write(fd, "OK", 2) == 2);
  } else if (sscanf(text, "GET %15s", key) == 1) {
    const char *found = find(key);
    crashproof_assert(write(fd, found, strlen(found) + 1) > 0);
  } else {
    rewrite();
    crashproof_assert(write(fd, "OK", 2) == 2);
  }
}

int main(int argc, char **argv) {
  char answer[32];
  crashproof_assert(argc >= 2);
  if (strcmp(argv[1], "create") == 0) {
    struct record record = {"first", "1"};
    int fd = open(argv[2], O_WRONLY | O_CREAT, 0644);
    append(fd, &record);
    return 0;
  }
  if (strcmp(argv[1], "client") == 0)
    return !(request("SET second 2", answer) && request("REWRITE", answer) && request("SET third 3", answer) &&
             request("GET second", answer) && strcmp(answer, "2") == 0);
  if (strcmp(argv[1], "ask") == 0)
    return !(request("GET first", answer) && strcmp(answer, "1") == 0);
  path = argv[1], new_path = argv[2];
  load();
  struct sockaddr_in here = address();
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  crashproof_assert(bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, 8) == 0);
  for (;;) {
    struct pollfd wanted = {listener, POLLIN, 0};
    if (poll(&wanted, 1, -1) == 1) {
      int fd = accept(listener, 0, 0);
      serve(fd);
      close(fd);
    }
  }
}
