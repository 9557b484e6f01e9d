/* class: multi-variable invariant; fails by: exit; cause: a fill writes the table and then empty = false, a flush clears
 * the table and then sets empty = true; interleaved, the cache says empty while an entry is in it.
 * Modelled on Mozilla's js property cache (jsinterp.c, cache->table and cache->empty), from Lu et al., MUVI. */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

class PropertyCache {
public:
    static const int kSize = 4;

    void Fill(int id, int shape)
    {
        table_[id % kSize].store(shape); // CAUSE
        empty_.store(false); // CAUSE
        fills_.fetch_add(1);
    }

    void Flush()
    {
        if (empty_.load())
            return;
        for (auto &e : table_)
            e.store(0); // CAUSE
        empty_.store(true); // CAUSE
    }

    bool Consistent()
    {
        std::lock_guard<std::mutex> l(lock_);
        int used = 0;
        for (auto &e : table_)
            used += e.load() != 0;
        return !(empty_.load() && used);
    }

    int Fills() const { return fills_.load(); }

private:
    std::mutex lock_;
    std::atomic<int> table_[kSize] = {};
    std::atomic<bool> empty_{true};
    std::atomic<int> fills_{0};
};

int main()
{
    PropertyCache cache;
    std::thread interp([&] {
        for (int i = 1; i <= 3; i++)
            cache.Fill(i, 100 + i);
    });
    std::thread gc([&] {
        for (int i = 0; i < 2; i++)
            cache.Flush();
    });
    interp.join();
    gc.join();
    std::printf("%d fills, %s\n", cache.Fills(), cache.Consistent() ? "consistent" : "not consistent");
    return !cache.Consistent() || cache.Fills() != 3;
}
