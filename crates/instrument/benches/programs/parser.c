// A recursive-descent parser that builds a tree of an expression and evaluates it.
#include "bench.h"

struct node {
  char kind; // a digit's value is in `value`, else an operator
  int64_t value;
  struct node *left, *right;
};

enum { LENGTH = 200000 };
static char *text;
static struct node *nodes;
static size_t used;

static void prepare(void) {
  text = malloc(LENGTH + 64);
  nodes = malloc((LENGTH + 64) * sizeof *nodes);
  size_t at = 0;
  int depth = 0;
  while (at < LENGTH) {
    while (depth < 20 && next_random() % 4 == 0) text[at++] = '(', depth++;
    for (int digits = 1 + (int)(next_random() % 4); digits > 0; digits--) text[at++] = (char)('0' + next_random() % 10);
    while (depth > 0 && next_random() % 3 == 0) text[at++] = ')', depth--;
    text[at++] = "+-*"[next_random() % 3];
  }
  text[at++] = '1';
  while (depth-- > 0) text[at++] = ')';
  text[at] = 0;
}

static struct node *make(char kind, int64_t value, struct node *left, struct node *right) {
  struct node *node = &nodes[used++];
  node->kind = kind, node->value = value, node->left = left, node->right = right;
  return node;
}

static struct node *sum(const char **at);

static struct node *atom(const char **at) {
  if (**at == '(') {
    ++*at;
    struct node *inner = sum(at);
    if (**at == ')') ++*at;
    return inner;
  }
  int64_t value = 0;
  while (**at >= '0' && **at <= '9') value = value * 10 + (*(*at)++ - '0');
  return make('0', value, NULL, NULL);
}

static struct node *product(const char **at) {
  struct node *left = atom(at);
  while (**at == '*') {
    ++*at;
    left = make('*', 0, left, atom(at));
  }
  return left;
}

static struct node *sum(const char **at) {
  struct node *left = product(at);
  while (**at == '+' || **at == '-') {
    char kind = *(*at)++;
    left = make(kind, 0, left, product(at));
  }
  return left;
}

// Nodes come after what they are made of.
static uint64_t evaluate(void) {
  for (size_t i = 0; i < used; i++) {
    struct node *node = &nodes[i];
    switch (node->kind) {
    case '+': node->value = (int64_t)((uint64_t)node->left->value + (uint64_t)node->right->value); break;
    case '-': node->value = (int64_t)((uint64_t)node->left->value - (uint64_t)node->right->value); break;
    case '*': node->value = (int64_t)((uint64_t)node->left->value * (uint64_t)node->right->value); break;
    default: break;
    }
  }
  return (uint64_t)nodes[used - 1].value;
}

static uint64_t run(void) {
  uint64_t result = 0;
  for (int round = 0; round < 5; round++) {
    const char *at = text;
    used = 0;
    sum(&at);
    result += evaluate();
  }
  return result;
}
