/* correct twin of facebook_stale_set: a miss gives a lease, which an invalidation takes away */
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
        long lease;
        {
            std::lock_guard<std::mutex> l(cache_mutex_);
            auto it = cache_.find(key);
            if (it != cache_.end()) {
                hits_++;
                return it->second;
            }
            lease = ++last_lease_;
            leases_[key] = lease;
        }
        int value = Read(key);
        {
            std::lock_guard<std::mutex> l(cache_mutex_);
            auto it = leases_.find(key);
            if (it != leases_.end() && it->second == lease) {
                cache_[key] = value;
                leases_.erase(it);
            }
        }
        return value;
    }

    void Update(const std::string &key, int value)
    {
        {
            std::lock_guard<std::mutex> l(rows_mutex_);
            rows_[key] = value;
        }
        std::lock_guard<std::mutex> l(cache_mutex_);
        cache_.erase(key);
        leases_.erase(key);
    }

    int Read(const std::string &key)
    {
        std::lock_guard<std::mutex> l(rows_mutex_);
        int value = rows_[key];
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
    std::map<std::string, long> leases_;
    long last_lease_ = 0;
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
