/* repaired twin of bitcoin_mempool_total.cpp */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

struct TxEntry {
    int txid;
    size_t size;
    long fee;
    int ancestors;
};

class TxMemPool {
    std::mutex cs_;
    std::map<int, TxEntry> mapTx_;
    size_t totalTxSize_ = 0;
    unsigned updated_ = 0;

public:
    void addUnchecked(const TxEntry &e) {
        std::lock_guard<std::mutex> g(cs_);
        if (!mapTx_.emplace(e.txid, e).second)
            return;
        updated_++;
        totalTxSize_ += e.size;
    }
    void remove(int txid) {
        std::lock_guard<std::mutex> g(cs_);
        auto it = mapTx_.find(txid);
        if (it == mapTx_.end())
            return;
        totalTxSize_ -= it->second.size;
        updated_++;
        mapTx_.erase(it);
    }
    size_t check() {
        std::lock_guard<std::mutex> g(cs_);
        size_t sum = 0;
        for (const auto &p : mapTx_)
            sum += p.second.size;
        if (sum != totalTxSize_) {
            std::fprintf(stderr, "mempool check: %zu != %zu\n", sum, totalTxSize_);
            std::abort();
        }
        return sum;
    }
    unsigned updated() {
        std::lock_guard<std::mutex> g(cs_);
        return updated_;
    }
};

static TxMemPool pool;
static std::mutex cs_peers;
static std::map<int, unsigned> peer_bytes;

static void net_thread(int peer, int first, int count) {
    for (int i = 0; i < count; i++) {
        TxEntry e = { first + i, (size_t)(200 + 7 * i), 1000 - i, 1 };
        pool.addUnchecked(e);
        std::lock_guard<std::mutex> g(cs_peers);
        peer_bytes[peer] += (unsigned)e.size;
    }
}

static void validation_thread() {
    for (int block = 0; block < 2; block++) {
        for (int t = 0; t < 2; t++)
            pool.remove(10 + 2 * block + t);
    }
    pool.check();
}

int main() {
    std::vector<std::thread> t;
    for (int i = 0; i < 4; i++)
        pool.addUnchecked(TxEntry{10 + i, (size_t)(300 + i), 500, 1});
    t.emplace_back(net_thread, 1, 100, 2);
    t.emplace_back(net_thread, 2, 200, 2);
    t.emplace_back(validation_thread);
    for (auto &x : t)
        x.join();
    size_t left = pool.check();
    std::printf("left %zu after %u updates\n", left, pool.updated());
    return left == 814 && pool.updated() == 12 && peer_bytes[1] == 407 ? 0 : 1;
}
