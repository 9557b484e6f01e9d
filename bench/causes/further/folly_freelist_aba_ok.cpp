/* class: none (correct twin of folly_freelist_aba: the head carries a tag that each change raises) */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {
constexpr int kNodes = 6;
constexpr int kThreads = 3;
constexpr int kRounds = 20;
constexpr uint32_t kNil = 0xffffffffu;

struct Node {
    std::atomic<uint32_t> next{kNil};
    std::atomic<int> owners{0};
};

Node g_nodes[kNodes];

class FreeList {
public:
    uint32_t Pop() {
        uint64_t h = head_.load();
        for (;;) {
            if (Index(h) == kNil) return kNil;
            uint32_t next = g_nodes[Index(h)].next.load();
            if (head_.compare_exchange_strong(h, Make(h, next))) return Index(h);
        }
    }

    void Push(uint32_t n) {
        uint64_t h = head_.load();
        do {
            g_nodes[n].next.store(Index(h));
        } while (!head_.compare_exchange_strong(h, Make(h, n)));
    }

private:
    static uint32_t Index(uint64_t h) { return static_cast<uint32_t>(h); }
    static uint64_t Make(uint64_t old, uint32_t n) { return ((old >> 32) + 1) << 32 | n; }

    std::atomic<uint64_t> head_{kNil};
};

FreeList g_list;
std::atomic<int> g_conflicts{0};

void Use(uint32_t n) {
    if (g_nodes[n].owners.fetch_add(1) != 0) g_conflicts.fetch_add(1);
}

void GiveBack(uint32_t n) {
    g_nodes[n].owners.fetch_sub(1);
    g_list.Push(n);
}

void Worker() {
    for (int i = 0; i < kRounds; ++i) {
        uint32_t a = g_list.Pop();
        if (a == kNil) continue;
        Use(a);
        uint32_t b = g_list.Pop();
        if (b != kNil) Use(b);
        GiveBack(a);
        if (b != kNil) GiveBack(b);
    }
}
}  // namespace

int main() {
    for (uint32_t i = 0; i < kNodes; ++i) g_list.Push(i);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(Worker);
    for (auto& t : threads) t.join();

    int left = 0;
    while (left <= kNodes && g_list.Pop() != kNil) ++left;
    if (g_conflicts.load() != 0 || left != kNodes) {
        std::printf("FAIL: %d conflicts, %d of %d nodes in the list\n", g_conflicts.load(), left, kNodes);
        return 1;
    }
    std::printf("ok: %d nodes\n", left);
    return 0;
}
