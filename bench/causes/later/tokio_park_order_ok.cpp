/* correct twin of tokio_park_order: the worker announces that it sleeps and looks once more before it does */
#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <semaphore.h>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSubmitters = 2;
constexpr int kTasks = 4;
constexpr int kTotal = kSubmitters * kTasks;

class Scheduler {
public:
    Scheduler() { sem_init(&unpark_, 0, 0); }
    ~Scheduler() { sem_destroy(&unpark_); }

    void Submit(std::function<void()> task)
    {
        {
            std::lock_guard<std::mutex> l(mutex_);
            tasks_.push_back(std::move(task));
        }
        if (sleeping_.exchange(false))
            sem_post(&unpark_);
    }

    /* runs tasks until that many have been run */
    void Run(int total)
    {
        int run = 0;
        std::function<void()> task;
        while (run < total) {
            if (Next(&task)) {
                task();
                run++;
                continue;
            }
            sleeping_.store(true);
            if (HasTasks() && sleeping_.exchange(false))
                continue;
            while (sem_wait(&unpark_) != 0)
                ;
        }
    }

private:
    bool Next(std::function<void()> *task)
    {
        std::lock_guard<std::mutex> l(mutex_);
        if (tasks_.empty())
            return false;
        *task = std::move(tasks_.front());
        tasks_.pop_front();
        return true;
    }

    bool HasTasks()
    {
        std::lock_guard<std::mutex> l(mutex_);
        return !tasks_.empty();
    }

    std::mutex mutex_;
    std::deque<std::function<void()>> tasks_;
    std::atomic<bool> sleeping_{false};
    sem_t unpark_;
};

int Checksum(const std::string &text)
{
    int sum = 1;
    for (char c : text)
        sum = (sum * 31 + c) % 10007;
    return sum;
}

} // namespace

int main()
{
    Scheduler scheduler;
    std::vector<int> results(kTotal, 0);
    std::vector<std::thread> submitters;
    std::thread worker([&scheduler] { scheduler.Run(kTotal); });
    for (int s = 0; s < kSubmitters; s++)
        submitters.emplace_back([&scheduler, &results, s] {
            for (int i = 0; i < kTasks; i++) {
                int n = s * kTasks + i;
                scheduler.Submit([&results, n] { results[n] = Checksum("task " + std::to_string(n)); });
            }
        });
    for (auto &s : submitters)
        s.join();
    worker.join();
    int missing = 0;
    for (int n = 0; n < kTotal; n++)
        if (results[n] != Checksum("task " + std::to_string(n)))
            missing++;
    std::printf("%d of %d tasks missing\n", missing, kTotal);
    return missing != 0;
}
