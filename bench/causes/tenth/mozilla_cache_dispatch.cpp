/* class: deadlock (lock and synchronous call to another thread); fails by: hang; cause: the cache thread sends a synchronous event to the main thread while it holds the lock of the cache service, and the main thread waits for that lock and so never gets to the event */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

class EventTarget {
public:
    // runs the event on the main thread and waits for its end
    void dispatchSync(const std::function<void()> &runnable) {
        std::unique_lock<std::mutex> guard(mutex_);
        bool done = false;
        queue_.push_back({&runnable, &done});
        cond_.notify_all();
        cond_.wait(guard, [&done] { return done; }); // CAUSE
    }

    void dispatchQuit() {
        std::lock_guard<std::mutex> guard(mutex_);
        quit_ = true;
        cond_.notify_all();
    }

    void processEvents() {
        std::unique_lock<std::mutex> guard(mutex_);
        for (;;) {
            cond_.wait(guard, [this] { return quit_ || !queue_.empty(); });
            if (queue_.empty())
                return;
            Event event = queue_.front();
            queue_.pop_front();
            guard.unlock();
            (*event.runnable)();
            guard.lock();
            *event.done = true;
            cond_.notify_all();
        }
    }

private:
    struct Event {
        const std::function<void()> *runnable;
        bool *done;
    };
    std::mutex mutex_;
    std::condition_variable cond_;
    std::deque<Event> queue_;
    bool quit_ = false;
};

class CacheService {
public:
    explicit CacheService(EventTarget &mainThread) : mainThread_(mainThread) {}

    // on the cache thread
    void evictEntries(int limit) {
        std::lock_guard<std::mutex> guard(lock_); // CAUSE
        int evicted = 0;
        while (entries_ > limit) {
            entries_--;
            evicted++;
        }
        mainThread_.dispatchSync([this, evicted] { notified_ += evicted; });
    }

    // on the main thread
    int visitEntries() {
        std::lock_guard<std::mutex> guard(lock_); // CAUSE
        return entries_;
    }

    int notified() const { return notified_; }

private:
    EventTarget &mainThread_;
    std::mutex lock_;
    int entries_ = 5;
    int notified_ = 0; // main thread only
};

int main() {
    EventTarget mainThread;
    CacheService service(mainThread);
    std::thread cacheThread([&] {
        service.evictEntries(3);
        service.evictEntries(2);
        mainThread.dispatchQuit();
    });
    int visited = service.visitEntries();
    mainThread.processEvents();
    cacheThread.join();
    std::printf("%d entries seen, %d evicted\n", visited, service.notified());
    return service.notified() == 3 ? 0 : 1;
}
