/* correct twin of metrics_singleton: who has the lock looks again */
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace {

constexpr int kWorkers = 3;
constexpr int kRequests = 4;

class Registry {
public:
    static Registry *Instance();

    std::atomic<long> &Counter(const std::string &name)
    {
        std::lock_guard<std::mutex> l(mutex_);
        return counters_[name];
    }

    long Total()
    {
        std::lock_guard<std::mutex> l(mutex_);
        long sum = 0;
        for (auto &c : counters_) {
            std::printf("%s %ld\n", c.first.c_str(), c.second.load());
            sum += c.second;
        }
        return sum;
    }

private:
    std::mutex mutex_;
    std::map<std::string, std::atomic<long>> counters_;
};

std::mutex init_mutex;
std::atomic<Registry *> registry{nullptr};

Registry *Registry::Instance()
{
    if (registry.load() == nullptr) {
        std::lock_guard<std::mutex> l(init_mutex);
        if (registry.load() == nullptr)
            registry.store(new Registry);
    }
    return registry.load();
}

unsigned Serve(unsigned request)
{
    unsigned h = 2166136261u;
    for (int i = 0; i < 8; i++)
        h = (h ^ (request >> i)) * 16777619u;
    return h;
}

void Worker(int id)
{
    std::atomic<long> &served = Registry::Instance()->Counter("served." + std::to_string(id));
    unsigned all = 0;
    for (int i = 0; i < kRequests; i++) {
        all |= Serve(id * kRequests + i);
        served++;
    }
    if (all == 0)
        Registry::Instance()->Counter("empty")++;
}

} // namespace

int main()
{
    std::thread workers[kWorkers];
    for (int i = 0; i < kWorkers; i++)
        workers[i] = std::thread(Worker, i);
    for (auto &w : workers)
        w.join();
    long total = Registry::Instance()->Total();
    if (total != kWorkers * kRequests) {
        std::printf("%ld of %d requests counted\n", total, kWorkers * kRequests);
        return 1;
    }
    return 0;
}
