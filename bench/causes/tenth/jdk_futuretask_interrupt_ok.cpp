/* correct twin of jdk_futuretask_interrupt: the interrupt is sent under the lock of the task, which the worker takes before it leaves the task and clears its interrupt status */
#include <atomic>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

struct Worker {
    std::atomic<bool> interrupted{false};
    void interrupt() { interrupted.store(true); }
};

class FutureTask {
public:
    enum State { NEW, NORMAL, CANCELLED };

    explicit FutureTask(std::function<int(Worker &)> body) : body_(std::move(body)) {}

    void run(Worker &worker) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            if (state_.load() != NEW)
                return;
            runner_.store(&worker);
        }
        int result = body_(worker);
        std::lock_guard<std::mutex> guard(mutex_);
        if (state_.load() == NEW) {
            state_.store(NORMAL);
            result_ = result;
        }
        runner_.store(nullptr);
    }

    bool cancel() {
        std::lock_guard<std::mutex> guard(mutex_);
        if (state_.load() != NEW)
            return false;
        state_.store(CANCELLED);
        Worker *worker = runner_.load();
        if (worker)
            worker->interrupt();
        return true;
    }

    bool isCancelled() const { return state_.load() == CANCELLED; }
    int result() const { return result_; }

private:
    const std::function<int(Worker &)> body_;
    std::atomic<int> state_{NEW};
    std::atomic<Worker *> runner_{nullptr};
    int result_ = -1;
    std::mutex mutex_;
};

static int countUp(Worker &self, int steps) {
    int n = 0;
    while (n < steps && !self.interrupted.load()) {
        n++;
    }
    return n;
}

static void runWorker(Worker &self, std::vector<FutureTask *> queue) {
    for (FutureTask *task : queue) {
        self.interrupted.store(false); // a new task starts without an interrupt
        task->run(self);
    }
}

int main() {
    constexpr int steps = 8;
    Worker worker;
    FutureTask first([](Worker &self) { return countUp(self, steps / 4); });
    FutureTask second([](Worker &self) { return countUp(self, steps); });
    std::thread thread(runWorker, std::ref(worker), std::vector<FutureTask *>{&first, &second});
    bool cancelled = first.cancel();
    thread.join();
    std::printf("first task %s, second counted to %d\n", cancelled ? "cancelled" : "done", second.result());
    return second.result() == steps ? 0 : 1;
}
