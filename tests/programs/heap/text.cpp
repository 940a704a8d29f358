// With --pm-heap, text that a library allocates for the program is persistent, too: that of a std::string, and what strdup and its
// relatives return. None of it is a pointer to volatile memory.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant string:
//@ check: clean
//@ variant string-lost: -DLOSE
//@ check: recovery-fails at STRING
//@ variant copied: -DCOPY
//@ check: clean
//@ variant copied-lost: -DCOPY -DLOSE
//@ check: recovery-fails at COPIED
//@ variant printed: -DPRINT
//@ check: clean
#include <crashproof.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct Record {
#if defined(COPY) || defined(PRINT)
  char *name;
  const char *text() const { return name; }
#else
  std::string name;
  const char *text() const { return name.c_str(); }
#endif
  alignas(64) long number;
  Record *next;
};

struct Root {
  Record *first;
};

static std::string name_of(long number) { return "the name of the record with the number " + std::to_string(number); }

static void add(Root *root, long number) {
  auto *record = new Record;
  std::string name = name_of(number);
#if defined(COPY)
  record->name = strdup(name.c_str()); // MARK: COPIED
#elif defined(PRINT)
  crashproof_assert(asprintf(&record->name, "%s", name.c_str()) > 0);
#else
  record->name = name; // MARK: STRING
#endif
#ifndef LOSE
  crashproof_persist(record->text(), name.size() + 1);
#endif
  record->number = number;
  record->next = root->first;
  crashproof_persist(record, sizeof *record);
  root->first = record;
  crashproof_persist(&root->first, sizeof root->first);
}

int main() {
  auto *root = static_cast<Root *>(crashproof_root(sizeof(Root)));
  for (Record *record = root->first; record; record = record->next)
    crashproof_assert(name_of(record->number) == record->text());
  if (crashproof_crashes())
    return 0;
  for (long number = 1; number < 4; number++)
    add(root, number);
  return 0;
}
