/* class: lost wake-up (predicate changed and notified without the mutex); fails by: hang; cause: the destructor sets shutdown_ and notifies without holding the mutex, a worker has just tested the predicate and is not yet waiting, misses the notification and sleeps for ever */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

class ThreadPool {
    std::mutex mutex_;
    std::condition_variable new_job_or_shutdown_, job_finished_;
    std::deque<std::function<void()>> jobs_;
    std::atomic<bool> shutdown_{false};
    std::vector<std::thread> threads_;
    unsigned active_ = 0, executed_ = 0;

    void worker() {
        for (;;) {
            std::function<void()> job;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                while (jobs_.empty()) {
                    if (shutdown_) // CAUSE
                        return;
                    new_job_or_shutdown_.wait(lock); // CAUSE
                }
                job = std::move(jobs_.front());
                jobs_.pop_front();
                active_++;
            }
            job();
            std::lock_guard<std::mutex> lock(mutex_);
            active_--;
            executed_++;
            job_finished_.notify_all();
        }
    }

public:
    explicit ThreadPool(unsigned n) {
        for (unsigned i = 0; i < n; i++)
            threads_.emplace_back(&ThreadPool::worker, this);
    }
    ~ThreadPool() { finalize(); }
    void schedule(std::function<void()> job) {
        std::lock_guard<std::mutex> lock(mutex_);
        jobs_.push_back(std::move(job));
        new_job_or_shutdown_.notify_one();
    }
    unsigned wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!jobs_.empty() || active_ > 0)
            job_finished_.wait(lock);
        return executed_;
    }
    void finalize() {
        shutdown_ = true; // CAUSE
        new_job_or_shutdown_.notify_all(); // CAUSE
        for (auto &t : threads_)
            t.join();
        threads_.clear();
    }
};

struct Block {
    std::vector<int> column;
    long sum = 0;
};

static void aggregate(Block *b) {
    b->sum = std::accumulate(b->column.begin(), b->column.end(), 0L);
}

int main() {
    enum { BLOCKS = 6, ROWS = 40 };
    std::vector<Block> blocks(BLOCKS);
    long total = 0;
    unsigned executed;
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < ROWS; k++)
            blocks[i].column.push_back(i * k % 11);
    {
        ThreadPool pool(3);
        for (auto &b : blocks)
            pool.schedule([&b] { aggregate(&b); });
        executed = pool.wait();
        for (auto &b : blocks)
            total += b.sum;
    }
    std::printf("executed %u total %ld\n", executed, total);
    return executed == BLOCKS ? 0 : 1;
}
