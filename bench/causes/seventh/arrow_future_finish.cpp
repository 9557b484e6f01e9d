/* class: atomicity violation over one variable (check then set of an atomic); fails by: abort; cause: the executor and the canceller both load finished_ == false before either stores true, so both call set_value on the same promise and the second one throws */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct Result {
    bool ok;
    long value;
};

class FutureImpl {
    std::atomic<bool> finished_{false};
    std::promise<Result> promise_;
    std::future<Result> future_;

    bool MarkFinished(Result r) {
        if (finished_.load()) // CAUSE
            return false;
        finished_.store(true); // CAUSE
        promise_.set_value(r); // CAUSE
        return true;
    }

public:
    const int id;
    explicit FutureImpl(int n) : future_(promise_.get_future()), id(n) {}
    bool Finish(long v) { return MarkFinished({true, v}); }
    bool Cancel() { return MarkFinished({false, -1}); }
    Result Get() { return future_.get(); }
};

using FuturePtr = std::shared_ptr<FutureImpl>;

class Executor {
    std::mutex lock_;
    std::condition_variable cond_;
    std::deque<FuturePtr> queue_;
    bool quit_ = false;

    static long Compute(int id) {
        long sum = 0;
        for (int i = 1; i <= 20 + id; i++)
            sum += i * id;
        return sum;
    }

public:
    int completed = 0;
    void Spawn(FuturePtr f) {
        std::lock_guard<std::mutex> g(lock_);
        queue_.push_back(std::move(f));
        cond_.notify_one();
    }
    void Shutdown() {
        std::lock_guard<std::mutex> g(lock_);
        quit_ = true;
        cond_.notify_all();
    }
    void Run() {
        std::unique_lock<std::mutex> g(lock_);
        for (;;) {
            cond_.wait(g, [this] { return quit_ || !queue_.empty(); });
            if (queue_.empty())
                return;
            FuturePtr f = std::move(queue_.front());
            queue_.pop_front();
            g.unlock();
            bool won = f->Finish(Compute(f->id));
            g.lock();
            if (won)
                completed++;
        }
    }
};

int main() {
    enum { TASKS = 6 };
    Executor ex;
    std::vector<FuturePtr> futures;
    int cancelled = 0, ok = 0, failed = 0;
    for (int i = 0; i < TASKS; i++)
        futures.push_back(std::make_shared<FutureImpl>(i));
    std::thread worker([&] { ex.Run(); });
    std::thread submit([&] {
        for (auto &f : futures)
            ex.Spawn(f);
    });
    std::thread stopper([&] {
        for (int i = 0; i < TASKS; i += 2)
            if (futures[i]->Cancel())
                cancelled++;
    });
    for (auto &f : futures) {
        Result r = f->Get();
        if (r.ok) ok++; else failed++;
    }
    submit.join();
    stopper.join();
    ex.Shutdown();
    worker.join();
    std::printf("ok %d cancelled %d\n", ok, failed);
    return ok == ex.completed && failed == cancelled && ok + failed == TASKS ? 0 : 1;
}
