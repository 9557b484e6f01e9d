/* correct twin of go_rwmutex_recursive: what is called with the read lock held takes no lock */
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kReaders = 2;
constexpr int kReads = 4;
constexpr int kWrites = 3;

class RWMutex {
public:
    void RLock()
    {
        std::unique_lock<std::mutex> l(mutex_);
        changed_.wait(l, [this] { return !writing_ && writers_waiting_ == 0; });
        readers_++;
    }

    void RUnlock()
    {
        std::lock_guard<std::mutex> l(mutex_);
        if (--readers_ == 0)
            changed_.notify_all();
    }

    void Lock()
    {
        std::unique_lock<std::mutex> l(mutex_);
        writers_waiting_++;
        changed_.wait(l, [this] { return !writing_ && readers_ == 0; });
        writers_waiting_--;
        writing_ = true;
    }

    void Unlock()
    {
        std::lock_guard<std::mutex> l(mutex_);
        writing_ = false;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int readers_ = 0;
    int writers_waiting_ = 0;
    bool writing_ = false;
};

class Settings {
public:
    Settings()
    {
        values_["default.limit"] = 10;
        values_["mail.limit"] = 25;
    }

    /* the setting of a user, or the default */
    int Get(const std::string &user, const std::string &name)
    {
        int value;
        lock_.RLock();
        auto it = values_.find(user + "." + name);
        if (it != values_.end())
            value = it->second;
        else {
            value = Default(name);
        }
        lock_.RUnlock();
        return value;
    }

    void Set(const std::string &key, int value)
    {
        lock_.Lock();
        values_[key] = value;
        lock_.Unlock();
    }

private:
    int Default(const std::string &name)
    {
        return values_.at("default." + name);
    }

    RWMutex lock_;
    std::map<std::string, int> values_;
};

} // namespace

int main()
{
    Settings settings;
    std::vector<std::thread> threads;
    int low[kReaders] = {};
    for (int r = 0; r < kReaders; r++)
        threads.emplace_back([&settings, &low, r] {
            for (int i = 0; i < kReads; i++)
                if (settings.Get(i % 2 ? "mail" : "news", "limit") < 10)
                    low[r]++;
        });
    threads.emplace_back([&settings] {
        for (int i = 1; i <= kWrites; i++)
            settings.Set("default.limit", 10 + i);
    });
    for (auto &t : threads)
        t.join();
    int last = settings.Get("web", "limit");
    std::printf("limit %d, %d too low\n", last, low[0] + low[1]);
    return last != 10 + kWrites || low[0] + low[1] != 0;
}
