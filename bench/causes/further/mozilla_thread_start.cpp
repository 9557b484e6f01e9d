/* class: order violation (start); fails by: SIGSEGV;
 * cause: the socket thread publishes its event queue as its first act; the timer and the DNS thread, started later,
 * take it that this has happened, and a poster that runs before the socket thread's store loads nullptr and uses it. */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

class EventQueue {
public:
    void Put(int ev) {
        std::lock_guard<std::mutex> g(mon_);
        events_.push_back(ev);
        cv_.notify_one();
    }

    int Take() {
        std::unique_lock<std::mutex> g(mon_);
        cv_.wait(g, [this] { return !events_.empty(); });
        int ev = events_.front();
        events_.pop_front();
        return ev;
    }

private:
    std::deque<int> events_;
    std::mutex mon_;
    std::condition_variable cv_;
};

class nsThread {
public:
    void Init() {
        thread_ = std::thread(&nsThread::Main, this);
    }

    void Dispatch(int ev) {
        EventQueue* q = queue_.load(); // CAUSE
        q->Put(ev);
    }

    void Shutdown() {
        Dispatch(kQuit);
        thread_.join();
    }

    long processed() const { return processed_; }

private:
    static constexpr int kQuit = -1;

    void Main() {
        EventQueue queue;
        queue_.store(&queue); // CAUSE
        for (int ev = queue.Take(); ev != kQuit; ev = queue.Take()) processed_ += ev;
    }

    std::thread thread_;
    std::atomic<EventQueue*> queue_{nullptr};
    long processed_ = 0;
};

namespace {
constexpr int kEvents = 10;
nsThread g_socket_thread;

void TimerThread() {
    for (int i = 1; i <= kEvents; ++i) g_socket_thread.Dispatch(i);
}

void DnsThread() {
    for (int i = 1; i <= kEvents; ++i) g_socket_thread.Dispatch(100 * i);
}
}  // namespace

int main() {
    g_socket_thread.Init();
    std::thread timer(TimerThread);
    std::thread dns(DnsThread);
    timer.join();
    dns.join();
    g_socket_thread.Shutdown();

    long want = 0;
    for (int i = 1; i <= kEvents; ++i) want += 101 * i;
    if (g_socket_thread.processed() != want) {
        std::printf("FAIL: processed %ld, expected %ld\n", g_socket_thread.processed(), want);
        return 1;
    }
    std::printf("ok: processed %ld\n", want);
    return 0;
}
