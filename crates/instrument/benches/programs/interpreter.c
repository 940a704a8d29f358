// A stack machine: counts primes by trial division.
#include "bench.h"

enum op { PUSH, LOAD, STORE, ADD, MOD, MUL, LESS, IS_ZERO, JUMP, JUMP_IF, HALT };
struct instruction { uint8_t op; int32_t operand; };
struct machine { int64_t stack[64]; int top; int64_t variables[8]; uint64_t steps; };

static struct instruction *code;
static struct machine *machine;

// n = 2; while (n < 20000) { d = 2; p = 1; while (d * d < n + 1) { if (n % d == 0) { p = 0; d = n; } d++; } c += p; n++; }
static const struct instruction PROGRAM[] = {
    {PUSH, 2}, {STORE, 0}, {PUSH, 0}, {STORE, 3},
    {LOAD, 0}, {PUSH, 20000}, {LESS, 0}, {IS_ZERO, 0}, {JUMP_IF, 44},
    {PUSH, 2}, {STORE, 1}, {PUSH, 1}, {STORE, 2},
    {LOAD, 1}, {LOAD, 1}, {MUL, 0}, {LOAD, 0}, {PUSH, 1}, {ADD, 0}, {LESS, 0}, {IS_ZERO, 0}, {JUMP_IF, 35},
    {LOAD, 0}, {LOAD, 1}, {MOD, 0}, {JUMP_IF, 30}, {PUSH, 0}, {STORE, 2}, {LOAD, 0}, {STORE, 1},
    {LOAD, 1}, {PUSH, 1}, {ADD, 0}, {STORE, 1}, {JUMP, 13},
    {LOAD, 3}, {LOAD, 2}, {ADD, 0}, {STORE, 3}, {LOAD, 0}, {PUSH, 1}, {ADD, 0}, {STORE, 0}, {JUMP, 4},
    {LOAD, 3}, {HALT, 0},
};

static void prepare(void) {
  code = malloc(sizeof PROGRAM);
  memcpy(code, PROGRAM, sizeof PROGRAM);
  machine = calloc(1, sizeof *machine);
}

static int64_t pop(struct machine *m) { return m->stack[--m->top]; }
static void push(struct machine *m, int64_t value) { m->stack[m->top++] = value; }

static int64_t interpret(struct machine *m, const struct instruction *program) {
  m->top = 0;
  for (const struct instruction *at = program;;) {
    const struct instruction *now = at++;
    int64_t right;
    m->steps++;
    switch (now->op) {
    case PUSH: push(m, now->operand); break;
    case LOAD: push(m, m->variables[now->operand]); break;
    case STORE: m->variables[now->operand] = pop(m); break;
    case ADD: right = pop(m), push(m, pop(m) + right); break;
    case MUL: right = pop(m), push(m, pop(m) * right); break;
    case MOD: right = pop(m), push(m, pop(m) % right); break;
    case LESS: right = pop(m), push(m, pop(m) < right); break;
    case IS_ZERO: push(m, pop(m) == 0); break;
    case JUMP: at = program + now->operand; break;
    case JUMP_IF:
      if (pop(m)) at = program + now->operand;
      break;
    default: return pop(m);
    }
  }
}

static uint64_t run(void) { return (uint64_t)interpret(machine, code) + machine->steps; }
