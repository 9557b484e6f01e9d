/* class: thread-local destructor order; fails by: segfault; cause: the registration is constructed before the cache, so at thread exit the cache's bins are freed and nulled first, and the stats thread still finds the cache in the list and reads its bins before the unlink */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

constexpr int kBins = 8, kMutators = 2, kDumps = 6;

struct tcache_bin {
    std::atomic<unsigned> nrequests{0};
    unsigned ncached = 0;
};

struct tcache {
    std::atomic<tcache_bin *> bins;
    tcache *next = nullptr, *prev = nullptr;
    tcache() : bins(new tcache_bin[kBins]) {}
    ~tcache();
};

static struct arena {
    std::mutex lock;
    tcache *head = nullptr;
    unsigned merged = 0;        /* requests of threads that have ended */
    unsigned nthreads = 0;
    unsigned dumps = 0;
} arena0;

struct registration {
    tcache *tc = nullptr;
    void link(tcache *t) {
        tc = t;
        std::lock_guard<std::mutex> g(arena0.lock);
        t->next = arena0.head;
        if (t->next)
            t->next->prev = t;
        arena0.head = t;
        arena0.nthreads++;
    }
    ~registration() {
        if (!tc)
            return;
        std::lock_guard<std::mutex> g(arena0.lock); // CAUSE
        if (tc->prev)
            tc->prev->next = tc->next;
        else
            arena0.head = tc->next;
        if (tc->next)
            tc->next->prev = tc->prev;
        arena0.nthreads--;
    }
};

tcache::~tcache() {
    tcache_bin *b = bins.load();
    unsigned sum = 0;
    for (int i = 0; i < kBins; i++)
        sum += b[i].nrequests.load();
    {
        std::lock_guard<std::mutex> g(arena0.lock);
        arena0.merged += sum;
    }
    bins.store(nullptr); // CAUSE
    delete[] b;
}

static tcache *tsd_get() {
    static thread_local registration reg; // CAUSE
    static thread_local tcache cache; // CAUSE
    if (!reg.tc)
        reg.link(&cache);
    return &cache;
}

static void mutator(int self) {
    for (int i = 0; i < 20; i++) {
        tcache_bin *b = tsd_get()->bins.load();
        b[(i * 3 + self) % kBins].nrequests.fetch_add(1);
        b[i % kBins].ncached ^= 1;
    }
}

static unsigned stats_print() {
    unsigned live = 0;
    std::lock_guard<std::mutex> g(arena0.lock);
    arena0.dumps++;
    for (tcache *t = arena0.head; t; t = t->next) {
        tcache_bin *b = t->bins.load(); // CAUSE
        for (int i = 0; i < kBins; i++)
            live += b[i].nrequests.load();
    }
    return live;
}

static void stats_thread(unsigned *peak) {
    for (int i = 0; i < kDumps; i++) {
        unsigned n = stats_print();
        if (n > *peak)
            *peak = n;
    }
}

int main() {
    unsigned peak = 0;
    std::thread s(stats_thread, &peak);
    std::thread m0(mutator, 0), m1(mutator, 1);
    s.join();
    m0.join();
    m1.join();
    std::printf("merged %u peak %u\n", arena0.merged, peak);
    return arena0.merged == 20 * kMutators && arena0.nthreads == 0 ? 0 : 1;
}
