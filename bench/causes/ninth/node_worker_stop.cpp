/* class: atomicity violation (two variables); fails by: hang; cause: a stop request comes between the worker's look at the stopped flag and the moment the worker publishes its isolate, so it finds no isolate to terminate and the flag is never looked at again */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

class Isolate {
public:
    explicit Isolate(size_t heap) : heap_(heap, 0) {}
    void TerminateExecution() {
        std::lock_guard<std::mutex> g(m_);
        terminating_ = true;
        wake_.notify_all();
    }
    void Post(const std::string &msg) {
        std::lock_guard<std::mutex> g(m_);
        inbox_.push_back(msg);
        wake_.notify_all();
    }
    int SpinEventLoop() {
        int handled = 0;
        std::unique_lock<std::mutex> l(m_);
        for (;;) {
            if (!inbox_.empty()) {
                heap_[handled % heap_.size()] += (char)inbox_.front().size();
                inbox_.pop_front();
                handled++;
                continue;
            }
            if (terminating_)
                return handled;
            wake_.wait(l); // CAUSE
        }
    }

private:
    std::mutex m_;
    std::condition_variable wake_;
    bool terminating_ = false;
    std::deque<std::string> inbox_;
    std::string heap_;
};

class Worker {
public:
    Worker(int id, size_t heap) : id_(id), heap_(heap) {}
    void StartThread() { thread_ = std::thread(&Worker::Run, this); }
    void PostMessage(const std::string &msg) {
        std::lock_guard<std::mutex> g(mutex_);
        if (isolate_)
            isolate_->Post(msg);
        else
            pending_.push_back(msg);
    }
    void Exit(int code) {
        std::lock_guard<std::mutex> g(mutex_);
        exit_code_ = code;
        if (isolate_) // CAUSE
            isolate_->TerminateExecution();
        else
            stopped_ = true;
    }
    void JoinThread() { thread_.join(); }
    int handled() const { return handled_; }
    int id() const { return id_; }
    int exit_code() const { return exit_code_; }

private:
    bool is_stopped() {
        std::lock_guard<std::mutex> g(mutex_);
        return stopped_; // CAUSE
    }
    void Run() {
        if (is_stopped())
            return;
        std::unique_ptr<Isolate> isolate(new Isolate(heap_));
        {
            std::lock_guard<std::mutex> g(mutex_);
            isolate_ = isolate.get(); // CAUSE
            for (auto &m : pending_)
                isolate->Post(m);
            pending_.clear();
        }
        handled_ = isolate->SpinEventLoop();
        std::lock_guard<std::mutex> g(mutex_);
        isolate_ = nullptr;
        stopped_ = true;
    }

    const int id_;
    const size_t heap_;
    std::thread thread_;
    std::mutex mutex_;
    Isolate *isolate_ = nullptr;
    bool stopped_ = false;
    int exit_code_ = -1, handled_ = 0;
    std::deque<std::string> pending_;
};

int main() {
    Worker workers[2] = {{1, 256}, {2, 512}};
    int handled = 0, exited = 0;
    for (Worker &w : workers) {
        w.StartThread();
        w.PostMessage("hello");
        w.PostMessage("worker " + std::to_string(w.id()));
    }
    for (Worker &w : workers)
        w.Exit(10 + w.id());
    for (Worker &w : workers) {
        w.JoinThread();
        handled += w.handled();
        if (w.exit_code() == 10 + w.id())
            exited++;
    }
    printf("%d workers exited, %d messages handled\n", exited, handled);
    return exited == 2 ? 0 : 1;
}
