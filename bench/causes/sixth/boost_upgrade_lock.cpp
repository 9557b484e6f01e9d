/* class: reader-writer lock upgrade deadlock; fails by: deadlock; cause: two threads hold the shared lock and both call upgrade, each waiting until it is the only reader while the other one keeps its share */
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>

class upgrade_mutex {
    std::mutex m_;
    std::condition_variable cv_;
    int readers_ = 0;
    bool writer_ = false;

public:
    void lock_shared() {
        std::unique_lock<std::mutex> g(m_);
        while (writer_)
            cv_.wait(g);
        ++readers_;
    }
    void unlock_shared() {
        std::lock_guard<std::mutex> g(m_);
        --readers_;
        cv_.notify_all();
    }
    void upgrade() {
        std::unique_lock<std::mutex> g(m_);
        while (readers_ != 1 || writer_) // CAUSE
            cv_.wait(g);
        readers_ = 0;
        writer_ = true;
    }
    void unlock() {
        std::lock_guard<std::mutex> g(m_);
        writer_ = false;
        cv_.notify_all();
    }
};

struct facet_cache {
    upgrade_mutex lock;
    std::map<int, int> entries;
};

static facet_cache cache;
static std::mutex stat_lock;
static unsigned hits, misses;

static int make_facet(int key) {
    int v = key;
    for (int i = 0; i < 10; i++)
        v = v * 31 + i;
    return v;
}

static int get_facet(int key) {
    int v;
    bool miss = false;
    cache.lock.lock_shared(); // CAUSE
    auto it = cache.entries.find(key);
    if (it != cache.entries.end()) {
        v = it->second;
        cache.lock.unlock_shared();
    } else {
        miss = true;
        v = make_facet(key);
        cache.lock.upgrade(); // CAUSE
        cache.entries[key] = v;
        cache.lock.unlock();
    }
    std::lock_guard<std::mutex> g(stat_lock);
    ++(miss ? misses : hits);
    return v;
}

static void reader(int self, int *bad) {
    for (int i = 0; i < 10; i++) {
        int key = i % 4;
        if (i == 2 + 4 * self)
            key = 100 + self;
        if (get_facet(key) != make_facet(key))
            ++*bad;
    }
}

int main() {
    int bad[2] = {0, 0};
    for (int k = 0; k < 4; k++)
        get_facet(k);
    std::thread a(reader, 0, &bad[0]), b(reader, 1, &bad[1]);
    a.join();
    b.join();
    std::printf("hits %u misses %u\n", hits, misses);
    if (bad[0] + bad[1] != 0 || hits + misses != 24 || cache.entries.size() != 6) {
        std::puts("cache is wrong");
        return 1;
    }
    return 0;
}
