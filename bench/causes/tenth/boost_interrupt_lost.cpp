/* class: lost wake-up (notified without the mutex of the waiter); fails by: hang; cause: interrupt notifies the condition variable that a thread has registered without holding the mutex of its wait, the thread is between its look for interruptions and the wait, and so it sleeps through the notification */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

struct thread_interrupted {};

using native_condition = std::condition_variable;

struct thread_data {
    std::mutex data_mutex;
    bool interrupt_requested = false;
    native_condition *current_cond = nullptr;

    void interrupt() {
        std::lock_guard<std::mutex> guard(data_mutex);
        interrupt_requested = true; // CAUSE
        if (current_cond)
            current_cond->notify_all(); // CAUSE
    }

    void interruption_point() {
        std::lock_guard<std::mutex> guard(data_mutex);
        if (interrupt_requested) {
            interrupt_requested = false;
            throw thread_interrupted();
        }
    }
};

class condition_variable {
public:
    void wait(std::unique_lock<std::mutex> &lock, thread_data &self) {
        {
            std::lock_guard<std::mutex> guard(self.data_mutex);
            if (!self.interrupt_requested) // CAUSE
                self.current_cond = &cond_;
        }
        if (self.current_cond)
            cond_.wait(lock); // CAUSE
        {
            std::lock_guard<std::mutex> guard(self.data_mutex);
            self.current_cond = nullptr;
        }
        self.interruption_point();
    }

    void notify_one() {
        cond_.notify_one();
    }

private:
    native_condition cond_;
};

class JobQueue {
public:
    void push(int job) {
        std::lock_guard<std::mutex> guard(mutex_);
        jobs_.push_back(job);
        available_.notify_one();
    }

    int pop(thread_data &self) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (jobs_.empty())
            available_.wait(lock, self);
        int job = jobs_.front();
        jobs_.pop_front();
        return job;
    }

private:
    std::mutex mutex_;
    condition_variable available_;
    std::deque<int> jobs_;
};

int main() {
    JobQueue queue;
    thread_data data;
    int sum = 0;
    bool interrupted = false;
    std::thread worker([&] {
        try {
            for (;;)
                sum += queue.pop(data);
        } catch (const thread_interrupted &) {
            interrupted = true;
        }
    });
    queue.push(1);
    queue.push(2);
    data.interrupt();
    worker.join();
    std::printf("worker %s, sum %d\n", interrupted ? "interrupted" : "ended", sum);
    return interrupted && sum <= 3 ? 0 : 1;
}
