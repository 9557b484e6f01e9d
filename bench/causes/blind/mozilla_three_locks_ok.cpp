/* Twin of mozilla_three_locks: the locks are taken in the order of the streams' numbers. */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

struct Stream {
    int id = 0;
    int blocks = 0;
    std::mutex lock;
};

class MediaCache {
public:
    MediaCache()
    {
        for (int i = 0; i < 3; i++) {
            streams_[i].id = i;
            streams_[i].blocks = 10;
        }
    }

    void MoveBlock(int from, int to)
    {
        Stream *a = &streams_[from];
        Stream *b = &streams_[to];
        Stream *low = a->id < b->id ? a : b;
        Stream *high = low == a ? b : a;
        std::unique_lock<std::mutex> l1(low->lock);
        moves_.fetch_add(1);
        std::unique_lock<std::mutex> l2(high->lock);
        a->blocks--;
        b->blocks++;
    }

    int Blocks()
    {
        int n = 0;
        for (Stream &s : streams_) {
            std::lock_guard<std::mutex> l(s.lock);
            n += s.blocks;
        }
        return n;
    }

    int Moves() const { return moves_.load(); }

private:
    Stream streams_[3];
    std::atomic<int> moves_{0};
};

int main()
{
    MediaCache cache;
    std::thread t[3];
    for (int i = 0; i < 3; i++)
        t[i] = std::thread([&cache, i] {
            for (int n = 0; n < 3; n++)
                cache.MoveBlock(i, (i + 1) % 3);
        });
    for (std::thread &x : t)
        x.join();
    std::printf("%d blocks, %d moves\n", cache.Blocks(), cache.Moves());
    return cache.Blocks() != 30 || cache.Moves() != 9;
}
