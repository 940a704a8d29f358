// Members that the library calls transient are only for the process; what lies beside them is not.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct nvm_region_header {
  uint64_t size;
  char name[64];
  uint64_t attach_id;
};

struct nvm_region {
  struct nvm_region_header header;
  uint64_t attach_cnt;
  nvm_desc desc;
  char pad[60];
  uint64_t extents;
};

void *nvms_region_addr(void *handle);

void attach(void *handle, nvm_desc desc, uint64_t id) {
  struct nvm_region *rg = nvms_region_addr(handle);
  rg->attach_cnt++;
  nvm_flush1(&rg->attach_cnt);
  nvm_persist();
  rg->header.attach_id = id;
  rg->desc = desc;
  rg->extents = 0; // MARK: unflushed-write
}
