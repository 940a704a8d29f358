/*
 * A list that grows at its head. Each element is complete in persistent memory before the head points to it,
 * so that a crash leaves the list as it was before or after an append, and nothing in between.
 *
 * Run it for more elements with: crashproof check examples/c/list_append.c -- 100
 */
#include <crashproof.h>
#include <stdlib.h>

struct element {
  long value;
  struct element *next;
};

struct list {
  struct element *head;
};

static void append(struct list *list, long value) {
  struct element *element = crashproof_alloc(sizeof *element);
  element->value = value;
  element->next = list->head;
  crashproof_persist(element, sizeof *element);
  list->head = element;
  crashproof_persist(&list->head, sizeof list->head);
}

/* Values count down to 1 from the head, whatever the crash left. */
static void verify(const struct list *list) {
  for (const struct element *element = list->head; element; element = element->next) {
    long expected = element->next ? element->next->value + 1 : 1;
    crashproof_assert(element->value == expected);
  }
}

int main(int argc, char **argv) {
  struct list *list = crashproof_root(sizeof *list);
  verify(list);
  if (crashproof_crashes())
    return 0;
  int count = argc > 1 ? atoi(argv[1]) : 10;
  for (int value = 1; value <= count; value++)
    append(list, value);
  return 0;
}
