// C++ containers beside persistent records.
#include "pool.h"
#include <map>
#include <string>
#include <vector>
struct record { char key[16]; int value; char pad[44]; };
struct store { int count; char pad[60]; record records[16]; };
int main() {
  store *s = static_cast<store *>(pool(4096));
  std::map<std::string, int> index;
  for (int i = 0; i < s->count; i++)
    index[s->records[i].key] = s->records[i].value;
  std::vector<std::string> keys{"alpha", "beta", "gamma"};
  for (int i = 0; i < s->count; i++)
    assert(index.at(keys[i]) == 10 * (i + 1));
  for (size_t i = s->count; i < keys.size(); i++) {
    record &r = s->records[i];
    strcpy(r.key, keys[i].c_str());
    r.value = 10 * (i + 1); // MARK
    CORRECT(persist(&r, sizeof r));
    s->count++;
    persist(&s->count, sizeof s->count);
  }
}
