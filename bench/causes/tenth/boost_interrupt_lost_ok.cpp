/* correct twin of boost_interrupt_lost: the condition variable has an internal mutex, which the waiter holds from its look for interruptions until it sleeps and which interrupt takes before it notifies */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

struct thread_interrupted {};

struct native_condition {
    std::mutex internal_mutex;
    std::condition_variable cond;
};

struct thread_data {
    std::mutex data_mutex;
    bool interrupt_requested = false;
    native_condition *current_cond = nullptr;

    void interrupt() {
        std::lock_guard<std::mutex> guard(data_mutex);
        interrupt_requested = true;
        if (current_cond) {
            std::lock_guard<std::mutex> internal(current_cond->internal_mutex);
            current_cond->cond.notify_all();
        }
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
            std::unique_lock<std::mutex> guard(self.data_mutex);
            if (!self.interrupt_requested) {
                self.current_cond = &cond_;
                std::unique_lock<std::mutex> internal(cond_.internal_mutex);
                guard.unlock();
                lock.unlock();
                cond_.cond.wait(internal);
                internal.unlock();
                lock.lock();
            }
        }
        {
            std::lock_guard<std::mutex> guard(self.data_mutex);
            self.current_cond = nullptr;
        }
        self.interruption_point();
    }

    void notify_one() {
        std::lock_guard<std::mutex> internal(cond_.internal_mutex);
        cond_.cond.notify_one();
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
