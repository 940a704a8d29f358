/* A persistent counter shared by a program, an archive and a shared library. */
#ifndef STORE_H
#define STORE_H

#define PERSISTENT __attribute__((section("crashproof_pm")))

struct entry { struct entry *next; long value; };

extern PERSISTENT struct entry *root;         /* defined in the shared library */
extern PERSISTENT struct entry entries[4];    /* defined in the archive */
extern PERSISTENT long counter;               /* defined in the program */

void push(struct entry *entry, long value); /* in the archive */
long total(void);                           /* in the shared library */

#endif
