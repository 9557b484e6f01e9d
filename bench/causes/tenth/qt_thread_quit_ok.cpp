/* correct twin of qt_thread_quit: quit also notes that the thread has been told to exit, and the event loop looks at that before it starts */
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
        exited_ = true;
        quitNow_ = true;
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
        quitNow_ = false;
        if (exited_)
            return;
        for (;;) {
            while (!events_.empty()) {
                auto event = std::move(events_.front());
                events_.pop();
                guard.unlock();
                event();
                guard.lock();
            }
            if (quitNow_)
                return;
            wakeUp_.wait(guard);
        }
    }

    std::mutex mutex_;
    std::condition_variable wakeUp_, startedCond_;
    std::queue<std::function<void()>> events_;
    bool running_ = false, quitNow_ = false;
    bool exited_ = false;
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
