/*
 * The link-free durable set (Zuriel et al., OOPSLA 2019): a sorted list whose links are not persistent. A node lies
 * in one cache line and says itself whether it is a member: its two validity bits agree, and it is not marked.
 *
 *   i(n, key)   insert, with node n       r(key)   remove       c(key)   contains
 *   w(n, value) write a flag; clients write 1 + what the operation said
 *
 * Flushes:
 *   1 of an insertion   2 of a key that was there already   3 of a deletion, in find   4 of a deletion, in remove
 *   5 of a deletion, in contains   6 of an insertion, in contains
 */
#include "client.h"

#ifndef NODES
#define NODES 1
#endif

PERSISTENT struct LINE node {
  atomic_int valid_1, valid_2;
  long key;
  long value;
  atomic_ulong next; /* lowest bit: marked, that is, deleted */
  atomic_int insert_flushed, delete_flushed;
} nodes[NODES] = {[0 ... NODES - 1] = {.next = 1}};
/* The ends of the list hold no member. */
static struct node last = {.key = 1 << 20, .next = 0};
static struct node first = {.key = -1, .next = (unsigned long)&last};

#define load(place) atomic_load_explicit(place, memory_order_acquire)
#define store(place, value) atomic_store_explicit(place, value, memory_order_release)
#define cas(place, old, new)                                                                                 \
  ({                                                                                                         \
    unsigned long expected_ = (old);                                                                         \
    atomic_compare_exchange_strong(place, &expected_, new);                                                  \
  })
#define marked(link) ((link)&1)
#define at(link) ((struct node *)((link) & ~1ul))
#define link_to(node) ((unsigned long)(node))

static void make_valid(struct node *node) {
  int v = load(&node->valid_1);
  if (load(&node->valid_2) != v)
    store(&node->valid_2, v);
}
#define FLUSH_INSERT(n, node)                                                                                \
  do {                                                                                                       \
    if (!load(&(node)->insert_flushed)) {                                                                    \
      FLUSH(n, node);                                                                                        \
      store(&(node)->insert_flushed, 1);                                                                     \
    }                                                                                                        \
  } while (0)
#define FLUSH_DELETE(n, node)                                                                                \
  do {                                                                                                       \
    if (!load(&(node)->delete_flushed)) {                                                                    \
      FLUSH(n, node);                                                                                        \
      store(&(node)->delete_flushed, 1);                                                                     \
    }                                                                                                        \
  } while (0)
#define TRIM(n, before, node)                                                                                \
  do {                                                                                                       \
    FLUSH_DELETE(n, node);                                                                                   \
    cas(&(before)->next, link_to(node), load(&(node)->next) & ~1ul);                                         \
  } while (0)

/* The first node with this key or a larger one, and the one before it. Unlinks deleted nodes on the way. */
static struct node *find(long key, struct node **before) {
  struct node *previous = &first;
  struct node *current = at(load(&first.next));
  for (;;) {
    unsigned long next = load(&current->next);
    if (marked(next))
      TRIM(3, previous, current);
    else if (current->key >= key)
      break;
    else
      previous = current;
    current = at(load(&current->next));
  }
  *before = previous;
  return current;
}

static int i(int n, long key) {
  for (;;) {
    struct node *before;
    struct node *current = find(key, &before);
    if (current->key == key) {
      make_valid(current);
      FLUSH_INSERT(2, current);
      return 0;
    }
    struct node *node = &nodes[n];
    /* Invalid first: whatever survives of the rest, it is not a member yet. */
    store(&node->valid_1, !load(&node->valid_2));
    store(&node->insert_flushed, 0);
    store(&node->delete_flushed, 0);
    node->key = key;
    node->value = key * 100;
    store(&node->next, link_to(current));
    if (cas(&before->next, link_to(current), link_to(node))) {
      make_valid(node);
      FLUSH_INSERT(1, node);
      return 1;
    }
  }
}

static int r(long key) {
  for (;;) {
    struct node *before;
    struct node *current = find(key, &before);
    if (current->key != key)
      return 0;
    unsigned long next = load(&current->next) & ~1ul;
    make_valid(current);
    if (cas(&current->next, next, next | 1)) {
      TRIM(4, before, current);
      return 1;
    }
  }
}

static int c(long key) {
  struct node *current = at(load(&first.next));
  while (current->key < key)
    current = at(load(&current->next));
  if (current->key != key)
    return 0;
  if (marked(load(&current->next))) {
    FLUSH_DELETE(5, current);
    return 0;
  }
  make_valid(current);
  FLUSH_INSERT(6, current);
  return 1;
}

/* Recovery keeps nodes that are valid and not marked. */
static int member(int n) { return nodes[n].valid_1 == nodes[n].valid_2 && !marked(nodes[n].next); }
/* Was it ever inserted, as far as recovery can tell? Deleted nodes are valid and marked. */
static int was_member(int n) { return nodes[n].valid_1 == 1 && nodes[n].valid_2 == 1; }
/* A member has its key and value. */
static void check_node(int n, long key) {
  if (member(n))
    crashproof_assert(nodes[n].key == key && nodes[n].value == key * 100);
}
