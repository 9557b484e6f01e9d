/* class: reference count (object revived from zero by a cache look-up, then destroyed in use); fails by: abort;
 * cause: a releasing thread lowers the count to 0 and has not yet taken the cache lock; a look-up finds the resource
 * in the cache and raises the count to 1; the first then removes and destroys it while the second uses it. */
#include <array>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

enum State { kFree, kAlive, kDead };

struct Resource {
    std::atomic<int> refs{0};
    std::atomic<int> state{kFree};
    int key = 0;
    std::atomic<int> hits{0};
};

class MemoryCache {
public:
    Resource* Get(int key) {
        std::lock_guard<std::mutex> g(lock_);
        auto it = map_.find(key);
        if (it != map_.end()) {
            it->second->refs.fetch_add(1); // CAUSE
            return it->second;
        }
        Resource* r = &slab_.at(used_++);
        r->key = key;
        r->refs.store(1);
        r->state.store(kAlive);
        map_[key] = r;
        return r;
    }

    void Release(Resource* r) {
        if (r->refs.fetch_sub(1) != 1) return; // CAUSE
        {
            std::lock_guard<std::mutex> g(lock_);
            map_.erase(r->key); // CAUSE
        }
        Destroy(r);
    }

    unsigned used() const { return used_; }
    bool empty() const { return map_.empty(); }

private:
    void Destroy(Resource* r) {
        int was = r->state.exchange(kDead);
        assert(was == kAlive);
        (void)was;
    }

    std::mutex lock_;
    std::map<int, Resource*> map_;
    std::array<Resource, 64> slab_;
    unsigned used_ = 0;
};

namespace {
constexpr int kThreads = 3;
constexpr int kLoads = 12;
MemoryCache g_cache;
std::atomic<int> g_hits{0};

void Loader(int id) {
    for (int i = 0; i < kLoads; ++i) {
        Resource* r = g_cache.Get((i + id) % 2);
        r->hits.fetch_add(1);
        g_hits.fetch_add(1);
        assert(r->state.load() == kAlive);
        g_cache.Release(r);
    }
}
}  // namespace

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(Loader, i);
    for (auto& t : threads) t.join();
    if (g_hits.load() != kThreads * kLoads || !g_cache.empty()) {
        std::printf("FAIL: %d hits, cache %s\n", g_hits.load(), g_cache.empty() ? "empty" : "not empty");
        return 1;
    }
    std::printf("ok: %d hits, %u resources made\n", g_hits.load(), g_cache.used());
    return 0;
}
