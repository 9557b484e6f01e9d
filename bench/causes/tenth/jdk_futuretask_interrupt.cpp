/* class: atomicity violation (check then act on the runner of a task); fails by: wrong result; cause: cancel reads which worker runs the task and interrupts that worker after it has gone on to its next task, which ends too early although nobody has cancelled it */
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
        runner_.store(&worker);
        if (state_.load() == NEW) {
            int result = body_(worker);
            int expected = NEW;
            if (state_.compare_exchange_strong(expected, NORMAL))
                result_ = result;
        }
        runner_.store(nullptr); // CAUSE
    }

    bool cancel() {
        int expected = NEW;
        if (!state_.compare_exchange_strong(expected, CANCELLED))
            return false;
        Worker *worker = runner_.load(); // CAUSE
        if (worker)
            worker->interrupt(); // CAUSE
        return true;
    }

    bool isCancelled() const { return state_.load() == CANCELLED; }
    int result() const { return result_; }

private:
    const std::function<int(Worker &)> body_;
    std::atomic<int> state_{NEW};
    std::atomic<Worker *> runner_{nullptr};
    int result_ = -1;
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
