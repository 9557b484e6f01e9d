/* class: work stealing, last element taken twice; fails by: wrong result; cause: owner and thief both see the last task, the thief's compare-and-swap of top succeeds and the owner, which stores top plainly instead of competing for it, runs the task too */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

constexpr int kTasks = 24, kSlots = 64;

struct task {
    int id;
    std::atomic<int> runs{0};
};

class task_deque {
    std::atomic<long> top_{0}, bottom_{0};
    std::atomic<task *> slot_[kSlots] = {};

public:
    void push(task *t) {
        long b = bottom_.load();
        slot_[b % kSlots].store(t);
        bottom_.store(b + 1);
    }
    task *pop() {
        long b = bottom_.load() - 1;
        bottom_.store(b);
        long t = top_.load(); // CAUSE
        if (t > b) {
            bottom_.store(t);
            return nullptr;
        }
        task *x = slot_[b % kSlots].load();
        if (t < b)
            return x;
        top_.store(t + 1); // CAUSE
        bottom_.store(t + 1);
        return x;
    }
    task *steal() {
        long t = top_.load();
        long b = bottom_.load(); // CAUSE
        if (t >= b)
            return nullptr;
        task *x = slot_[t % kSlots].load();
        if (!top_.compare_exchange_strong(t, t + 1)) // CAUSE
            return nullptr;
        return x;
    }
};

static task tasks[kTasks];
static task_deque deque_;
static std::mutex stat_lock;
static int stat_own, stat_stolen;

static void execute(task *t, bool stolen) {
    t->runs.fetch_add(1);
    std::lock_guard<std::mutex> g(stat_lock);
    ++(stolen ? stat_stolen : stat_own);
}

static void owner() {
    int next = 0;
    while (next < kTasks) {
        int batch = 1 + next % 3;
        for (int i = 0; i < batch && next < kTasks; i++)
            deque_.push(&tasks[next++]);
        while (task *t = deque_.pop())
            execute(t, false);
    }
}

static void thief() {
    for (int i = 0; i < 40; i++)
        if (task *t = deque_.steal())
            execute(t, true);
}

int main() {
    for (int i = 0; i < kTasks; i++)
        tasks[i].id = i;
    std::thread a(owner), b(thief);
    a.join();
    b.join();
    int bad = 0;
    for (task &t : tasks)
        if (t.runs.load() != 1) {
            std::printf("task %d ran %d times\n", t.id, t.runs.load());
            bad = 1;
        }
    std::printf("own %d stolen %d\n", stat_own, stat_stolen);
    return bad;
}
