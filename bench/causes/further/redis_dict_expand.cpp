/* class: stale cached value (hash mask read before the lock); fails by: wrong result;
 * cause: an inserting thread computes the bucket with the mask it loads before it has the lock; another thread expands
 * the table meanwhile; the first then puts its key into the bucket of the old size, where look-ups do not find it. */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace {
uint32_t HashKey(uint32_t k) {
    k ^= k >> 15;
    k *= 0x2c1b3c6du;
    k ^= k >> 12;
    k *= 0x297a2d39u;
    return k ^ k >> 15;
}

class Dict {
public:
    Dict() : buckets_(4), mask_(3) {}

    void Add(uint32_t key) {
        uint32_t hash = HashKey(key);
        size_t idx = hash & mask_.load(); // CAUSE
        std::lock_guard<std::mutex> g(lock_);
        buckets_[idx].push_back(key); // CAUSE
        if (++used_ > buckets_.size()) Expand();
    }

    bool Find(uint32_t key) {
        std::lock_guard<std::mutex> g(lock_);
        for (uint32_t k : buckets_[HashKey(key) & mask_.load()])
            if (k == key) return true;
        return false;
    }

    size_t used() const { return used_; }

private:
    void Expand() {
        std::vector<std::vector<uint32_t>> bigger(buckets_.size() * 2);
        size_t mask = bigger.size() - 1;
        for (auto& b : buckets_)
            for (uint32_t k : b) bigger[HashKey(k) & mask].push_back(k);
        buckets_.swap(bigger);
        mask_.store(mask); // CAUSE
    }

    std::mutex lock_;
    std::vector<std::vector<uint32_t>> buckets_;
    std::atomic<size_t> mask_;
    size_t used_ = 0;
};

constexpr int kClients = 3;
constexpr uint32_t kKeys = 9;
Dict g_dict;
std::atomic<int> g_misses{0};

void Client(uint32_t id) {
    for (uint32_t i = 0; i < kKeys; ++i) {
        uint32_t key = id * 1000 + i;
        g_dict.Add(key);
        if (!g_dict.Find(key)) g_misses.fetch_add(1);
    }
}
}  // namespace

int main() {
    std::vector<std::thread> clients;
    for (uint32_t i = 0; i < kClients; ++i) clients.emplace_back(Client, i);
    for (auto& c : clients) c.join();

    int lost = 0;
    for (uint32_t id = 0; id < kClients; ++id)
        for (uint32_t i = 0; i < kKeys; ++i)
            if (!g_dict.Find(id * 1000 + i)) ++lost;
    if (g_misses.load() != 0 || lost != 0) {
        std::printf("FAIL: %d look-ups missed, %d keys lost\n", g_misses.load(), lost);
        return 1;
    }
    std::printf("ok: %zu keys\n", g_dict.used());
    return 0;
}
