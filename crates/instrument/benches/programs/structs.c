// Objects with many fields, updated through a table of pointers: simulation code.
#include "bench.h"

struct body { double x, y, z, vx, vy, vz, mass; int alive, hits; };
enum { N = 20000 };
static struct body **bodies;

static void prepare(void) {
  bodies = malloc(N * sizeof *bodies);
  for (int i = 0; i < N; i++) {
    bodies[i] = calloc(1, sizeof **bodies);
    bodies[i]->vx = (double)(next_random() % 100), bodies[i]->vy = 1, bodies[i]->mass = 2;
    bodies[i]->alive = next_random() % 8 != 0;
  }
}

static uint64_t run(void) {
  uint64_t hits = 0;
  for (int round = 0; round < 50; round++)
    for (int i = 0; i < N; i++) {
      struct body *b = bodies[i];
      if (!b->alive) continue;
      b->x += b->vx * 0.01, b->y += b->vy * 0.01, b->z += b->vz * 0.01;
      if (b->x > 100) b->x -= 100, b->hits++;
      hits += b->hits;
    }
  return hits;
}
