/* class: notify outside the lock, destruction while in use; fails by: abort; cause: Set unlocks after signaled_ = true, the waiter sees the flag, returns and destroys the Event on its stack, then Set still touches the event to notify */
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unistd.h>

class Event {
    static constexpr uint32_t kAlive = 0xe7e27u;
    std::mutex lock_;
    std::condition_variable cond_;
    bool signaled_ = false;
    volatile uint32_t alive_ = kAlive;

    void WakeWaiters() {
        if (alive_ != kAlive) { // CAUSE
            std::fputs("Event used after destruction\n", stderr);
            std::abort();
        }
        cond_.notify_all();
    }

public:
    ~Event() { alive_ = 0; } // CAUSE
    void Set() {
        lock_.lock();
        signaled_ = true;
        lock_.unlock(); // CAUSE
        WakeWaiters(); // CAUSE
    }
    void Wait() {
        std::unique_lock<std::mutex> g(lock_);
        while (!signaled_) // CAUSE
            cond_.wait(g);
    }
};

class TaskQueue {
    std::mutex lock_;
    std::condition_variable cond_;
    std::deque<std::function<void()>> tasks_;
    bool quit_ = false;
    int executed_ = 0;

public:
    void Post(std::function<void()> fn) {
        std::lock_guard<std::mutex> g(lock_);
        tasks_.push_back(std::move(fn));
        cond_.notify_one();
    }
    void Quit() {
        std::lock_guard<std::mutex> g(lock_);
        quit_ = true;
        cond_.notify_all();
    }
    int executed() {
        std::lock_guard<std::mutex> g(lock_);
        return executed_;
    }
    void Run() {
        std::unique_lock<std::mutex> g(lock_);
        for (;;) {
            while (tasks_.empty() && !quit_)
                cond_.wait(g);
            if (tasks_.empty())
                return;
            std::function<void()> fn = std::move(tasks_.front());
            tasks_.pop_front();
            executed_++;
            g.unlock();
            fn();
            g.lock();
        }
    }
};

static TaskQueue network;
static int transport_state;

static int Invoke(int delta) {
    Event done;
    int result = 0;
    network.Post([&] {
        transport_state += delta;
        result = transport_state;
        done.Set();
    });
    done.Wait();
    return result;
}

static void Scribble() {
    volatile unsigned char junk[1024];
    for (unsigned i = 0; i < sizeof junk; i++)
        junk[i] = 0;
}

static void signaling(int rounds, int *calls) {
    for (int i = 0; i < rounds; i++) {
        if (Invoke(1 + i) > 0)
            ++*calls;
        Scribble();
    }
}

int main() {
    int calls[2] = {0, 0};
    std::thread net([] { network.Run(); });
    std::thread a(signaling, 3, &calls[0]), b(signaling, 2, &calls[1]);
    a.join();
    b.join();
    network.Quit();
    net.join();
    std::printf("state %d executed %d\n", transport_state, network.executed());
    return transport_state == 9 && calls[0] + calls[1] == 5 ? 0 : 1;
}
