/*
 * What libstdc++ keeps in its library and not in its headers: threads, conditions, and the trees of std::map and std::set.
 * Templates that it has compiled already are compiled anew with the program.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

void __crashproof_not_modeled(const char *what);
int pthread_create(unsigned long *handle, const void *attributes, void *(*start)(void *), void *argument);
int pthread_join(unsigned long handle, void **result);
int pthread_cond_wait(void *condition, void *lock);
__attribute__((noreturn)) void abort(void);

/* std::thread: what it runs is an object whose third virtual function runs it. */
static void *run_state(void *state) {
  void (**functions)(void *) = *(void (***)(void *))state;
  functions[2](state);
  return 0;
}
MODEL void _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    unsigned long *thread, void **state, void (*depends)(void)) {
  (void)depends;
  void *runs = *state;
  *state = 0;
  pthread_create(thread, 0, run_state, runs);
}
MODEL void _ZNSt6thread6_StateD2Ev(void *state) { (void)state; }
MODEL void _ZNSt6thread6_StateD1Ev(void *state) { (void)state; }
MODEL void _ZNSt6thread6_StateD0Ev(void *state) { (void)state; }
MODEL void _ZNSt6thread4joinEv(unsigned long *thread) {
  if (*thread == 0)
    __crashproof_not_modeled("to join a std::thread that is none");
  pthread_join(*thread, 0);
  *thread = 0;
}
MODEL void _ZNSt6thread6detachEv(unsigned long *thread) { *thread = 0; }
MODEL unsigned _ZNSt6thread20hardware_concurrencyEv(void) { return 2; }
MODEL __attribute__((noreturn)) void _ZSt9terminatev(void) { abort(); }

/* std::condition_variable; a waiting thread may wake up at any time. */
struct unique_lock {
  void *mutex;
  char owns;
};
MODEL void _ZNSt18condition_variableC1Ev(void *condition) { (void)condition; }
MODEL void _ZNSt18condition_variableC2Ev(void *condition) { (void)condition; }
MODEL void _ZNSt18condition_variableD1Ev(void *condition) { (void)condition; }
MODEL void _ZNSt18condition_variableD2Ev(void *condition) { (void)condition; }
MODEL void _ZNSt18condition_variable10notify_oneEv(void *condition) { (void)condition; }
MODEL void _ZNSt18condition_variable10notify_allEv(void *condition) { (void)condition; }
MODEL void _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void *condition, struct unique_lock *lock) {
  pthread_cond_wait(condition, lock->mutex);
}

/* Static variables of functions. */
MODEL int __cxa_guard_acquire(char *guard) { return !*guard; }
MODEL void __cxa_guard_release(char *guard) { *guard = 1; }
MODEL __attribute__((noreturn)) void __cxa_pure_virtual(void) { abort(); }

/* Trees: in order, but not balanced; nobody can see how they are balanced but by the time it takes. */
struct node {
  int color;
  struct node *parent, *left, *right;
};
static struct node *next_of(struct node *at) {
  if (at->right) {
    for (at = at->right; at->left;)
      at = at->left;
    return at;
  }
  struct node *above = at->parent;
  for (; at == above->right; above = above->parent)
    at = above;
  return at->right != above ? above : at;
}
static struct node *previous_of(struct node *at) {
  /* The header of the tree is red, and its parent's parent is itself. */
  if (at->color == 0 && at->parent->parent == at)
    return at->right;
  if (at->left) {
    for (at = at->left; at->right;)
      at = at->right;
    return at;
  }
  struct node *above = at->parent;
  for (; at == above->left; above = above->parent)
    at = above;
  return above;
}
MODEL struct node *_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base(struct node *at) { return next_of(at); }
MODEL struct node *_ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base(struct node *at) { return next_of(at); }
MODEL struct node *_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base(struct node *at) { return previous_of(at); }
MODEL struct node *_ZSt18_Rb_tree_decrementPKSt18_Rb_tree_node_base(struct node *at) { return previous_of(at); }
MODEL void _ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_(_Bool left, struct node *node,
                                                                             struct node *above,
                                                                             struct node *header) {
  node->parent = above;
  node->left = node->right = 0;
  node->color = 1;
  if (left) {
    above->left = node;
    if (above == header) {
      header->parent = node;
      header->right = node;
    } else if (above == header->left) {
      header->left = node;
    }
  } else {
    above->right = node;
    if (above == header->right)
      header->right = node;
  }
}
