/* class: cache (stale value stored after the invalidation); fails by: wrong result; cause: (after the stale sets of
 * memcache at Facebook) a reader that misses the cache reads the database and stores what it has read, and when a
 * write and its invalidation come in between, the old value stays in the cache for good */
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kReads = 3;
constexpr int kUpdates = 3;
const char *const kKeys[] = { "ann", "bob", "eve" };

class Profiles {
public:
    void Insert(const std::string &key, int value) { rows_[key] = value; }

    int Get(const std::string &key)
    {
        {
            std::lock_guard<std::mutex> l(cache_mutex_);
            auto it = cache_.find(key);
            if (it != cache_.end()) {
                hits_++;
                return it->second;
            }
        }
        int value = Read(key);
        {
            std::lock_guard<std::mutex> l(cache_mutex_);
            cache_[key] = value;                  // CAUSE
        }
        return value;
    }

    void Update(const std::string &key, int value)
    {
        {
            std::lock_guard<std::mutex> l(rows_mutex_);
            rows_[key] = value;                   // CAUSE
        }
        std::lock_guard<std::mutex> l(cache_mutex_);
        cache_.erase(key);                        // CAUSE
    }

    int Read(const std::string &key)
    {
        std::lock_guard<std::mutex> l(rows_mutex_);
        int value = rows_[key];                   // CAUSE
        return value;
    }

    int Hits()
    {
        std::lock_guard<std::mutex> l(cache_mutex_);
        return hits_;
    }

private:
    std::mutex rows_mutex_;             /* the database */
    std::map<std::string, int> rows_;
    std::mutex cache_mutex_;
    std::map<std::string, int> cache_;
    int hits_ = 0;
};

} // namespace

int main()
{
    Profiles profiles;
    int stale = 0;
    for (const char *key : kKeys)
        profiles.Insert(key, 1);
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; r++)
        readers.emplace_back([&profiles] {
            for (int i = 0; i < kReads; i++)
                for (const char *key : kKeys)
                    profiles.Get(key);
        });
    std::thread writer([&profiles] {
        for (int i = 1; i <= kUpdates; i++)
            for (const char *key : kKeys)
                profiles.Update(key, 10 * i);
    });
    for (auto &t : readers)
        t.join();
    writer.join();
    for (const char *key : kKeys)
        if (profiles.Get(key) != profiles.Read(key))
            stale++;
    std::printf("%d hits, %d stale\n", profiles.Hits(), stale);
    return stale != 0;
}
