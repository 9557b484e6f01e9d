/* class: thread-pool shutdown (stop flag tested outside the queue's lock); fails by: deadlock;
 * cause: a client passes the test of stopping_ in Submit; Shutdown sets it and the workers see the queue empty and leave;
 * then the client pushes its task, which nobody runs, and waits for its completion for ever. */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

class ThreadPool {
public:
    explicit ThreadPool(int n) {
        for (int i = 0; i < n; ++i) workers_.emplace_back([this] { Run(); });
    }

    bool Submit(std::function<void()> task) {
        if (stopping_.load()) return false; // CAUSE
        {
            std::lock_guard<std::mutex> g(lock_);
            queue_.push_back(std::move(task)); // CAUSE
        }
        cv_.notify_one();
        return true;
    }

    void Shutdown() {
        {
            std::lock_guard<std::mutex> g(lock_);
            stopping_.store(true); // CAUSE
        }
        cv_.notify_all();
        for (auto& w : workers_) w.join();
    }

private:
    void Run() {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock<std::mutex> g(lock_);
                cv_.wait(g, [this] { return stopping_.load() || !queue_.empty(); });
                if (queue_.empty()) return; // CAUSE
                task = std::move(queue_.front());
                queue_.pop_front();
            }
            task();
        }
    }

    std::mutex lock_;
    std::condition_variable cv_;
    std::deque<std::function<void()>> queue_;
    std::vector<std::thread> workers_;
    std::atomic<bool> stopping_{false};
};

int main() {
    constexpr int kTasks = 8, kWarm = 3;
    ThreadPool pool(2);
    std::promise<void> warm;
    int accepted = 0, rejected = 0;
    std::atomic<int> executed{0};

    std::thread client([&] {
        for (int i = 1; i <= kTasks; ++i) {
            auto result = std::make_shared<std::promise<int>>();
            auto f = result->get_future();
            if (!pool.Submit([result, &executed, i] {
                    executed.fetch_add(1);
                    result->set_value(i * i);
                })) {
                ++rejected;
                continue;
            }
            if (f.get() == i * i) ++accepted;
            if (i == kWarm) warm.set_value();
        }
    });

    warm.get_future().wait();
    pool.Shutdown();
    client.join();
    if (accepted != executed.load() || accepted + rejected != kTasks) {
        std::printf("FAIL: %d accepted, %d executed\n", accepted, executed.load());
        return 1;
    }
    std::printf("ok: %d accepted, %d rejected\n", accepted, rejected);
    return 0;
}
