/* class: lost wake-up (request wiped out by the reset of the flag); fails by: hang; cause: quit sets quitNow after the thread has announced that it has started but before its event loop resets quitNow, so the request is wiped out and the loop waits for ever */
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

class Thread {
public:
    ~Thread() {
        if (thread_.joinable())
            thread_.join();
    }

    void start() {
        thread_ = std::thread([this] { run(); });
    }

    void postEvent(std::function<void()> event) {
        std::lock_guard<std::mutex> guard(mutex_);
        events_.push(std::move(event));
        wakeUp_.notify_one();
    }

    void exit(int returnCode) {
        std::lock_guard<std::mutex> guard(mutex_);
        returnCode_ = returnCode;
        quitNow_ = true; // CAUSE
        wakeUp_.notify_one();
    }

    void quit() { exit(0); }

    void waitForStarted() {
        std::unique_lock<std::mutex> guard(mutex_);
        startedCond_.wait(guard, [this] { return running_; });
    }

    int wait() {
        thread_.join();
        return returnCode_;
    }

private:
    void run() {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            running_ = true;
            startedCond_.notify_all();
        }
        exec();
    }

    void exec() {
        std::unique_lock<std::mutex> guard(mutex_);
        quitNow_ = false; // CAUSE
        for (;;) {
            while (!events_.empty()) {
                auto event = std::move(events_.front());
                events_.pop();
                guard.unlock();
                event();
                guard.lock();
            }
            if (quitNow_) // CAUSE
                return;
            wakeUp_.wait(guard);
        }
    }

    std::mutex mutex_;
    std::condition_variable wakeUp_, startedCond_;
    std::queue<std::function<void()>> events_;
    bool running_ = false, quitNow_ = false;
    int returnCode_ = -1;
    std::thread thread_;
};

int main() {
    Thread thread;
    int scanned = 0;
    thread.start();
    thread.waitForStarted();
    thread.postEvent([&scanned] { scanned++; });
    thread.quit();
    int code = thread.wait();
    std::printf("%d directories scanned, code %d\n", scanned, code);
    return code == 0 ? 0 : 1;
}
