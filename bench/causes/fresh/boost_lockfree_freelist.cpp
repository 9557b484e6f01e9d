/* class: ABA; fails by: abort; cause: the free list compares only the index of its head, so that an allocation succeeds with an old successor after the head has been taken and given back */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr std::uint32_t kNil = 0xff;
constexpr int kNodes = 4;
constexpr int kRounds = 5;

using Head = std::uint32_t;
inline std::uint32_t IndexOf(Head h) { return h; }
inline Head Make(std::uint32_t index, Head) { return index; }

struct Node {
    std::atomic<std::uint32_t> next{kNil};
    std::atomic<int> owner{0};
    long payload = 0;
};

Node nodes[kNodes];
std::atomic<Head> head{kNil};
std::atomic<int> allocations{0};

void Release(std::uint32_t i)
{
    Head h = head.load();
    do {
        nodes[i].next.store(IndexOf(h));
    } while (!head.compare_exchange_strong(h, Make(i, h)));           // CAUSE
}

std::uint32_t Allocate()
{
    Head h = head.load();
    for (;;) {
        std::uint32_t i = IndexOf(h);
        if (i == kNil)
            return kNil;
        std::uint32_t next = nodes[i].next.load();                    // CAUSE
        if (head.compare_exchange_strong(h, Make(next, h)))           // CAUSE
            return i;
    }
}

void Own(std::uint32_t i, int id)
{
    if (i != kNil && nodes[i].owner.exchange(id) != 0) {
        std::fprintf(stderr, "node %u has two owners\n", i);
        std::abort();
    }
}

void Disown(std::uint32_t i, int id)
{
    if (i == kNil)
        return;
    if (nodes[i].owner.exchange(0) != id)
        std::abort();
    Release(i);
}

void Worker(int id)
{
    for (int r = 0; r < kRounds; r++) {
        std::uint32_t a = Allocate();
        Own(a, id);
        std::uint32_t b = Allocate();
        Own(b, id);
        allocations += (a != kNil) + (b != kNil);
        Disown(a, id);
        Disown(b, id);
    }
}

} // namespace

int main()
{
    for (std::uint32_t i = 0; i < kNodes; i++)
        Release(i);
    std::thread t1(Worker, 1), t2(Worker, 2);
    t1.join();
    t2.join();
    std::uint32_t left = 0;
    for (std::uint32_t i = IndexOf(head); i != kNil && left <= kNodes; i = nodes[i].next)
        left++;
    std::printf("%u nodes, %d allocations\n", left, allocations.load());
    if (left != kNodes)
        std::abort();
    return 0;
}
