/* class: memory order (missing barrier after the permit is taken); fails by: hang; cause: park clears the permit with a plain store and returns, the caller loads the state of the lock before that store is visible, unpark finds the old permit still there and signals nobody, and then the late store wipes out the new permit */
#include <atomic>
#include <cstdio>
#include <pthread.h>

// one permit for each thread, as of java.util.concurrent.locks.LockSupport
class Parker {
public:
    void park() {
        if (counter_.load(std::memory_order_relaxed) > 0) {
            counter_.store(0, std::memory_order_relaxed); // CAUSE
            return;
        }
        pthread_mutex_lock(&mutex_);
        while (counter_.load(std::memory_order_relaxed) == 0)
            pthread_cond_wait(&cond_, &mutex_);
        counter_.store(0, std::memory_order_relaxed);
        pthread_mutex_unlock(&mutex_);
    }

    void unpark() {
        pthread_mutex_lock(&mutex_);
        int s = counter_.load(std::memory_order_relaxed); // CAUSE
        counter_.store(1, std::memory_order_relaxed);
        pthread_mutex_unlock(&mutex_);
        if (s < 1)
            pthread_cond_signal(&cond_);
    }

private:
    std::atomic<int> counter_{0};
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond_ = PTHREAD_COND_INITIALIZER;
};

// a lock that is handed over to its only waiter
class HandoverLock {
public:
    explicit HandoverLock(Parker &waiter) : waiter_(waiter) {}

    void acquire() {
        while (!free_.load(std::memory_order_acquire)) // CAUSE
            waiter_.park();
    }

    void release() {
        free_.store(true, std::memory_order_release); // CAUSE
        waiter_.unpark();
    }

private:
    std::atomic<bool> free_{false};
    Parker &waiter_;
};

struct Shared {
    Parker parker;
    HandoverLock lock{parker};
    int balance = 0;
};

static void *waiter(void *arg) {
    auto *shared = static_cast<Shared *>(arg);
    shared->lock.acquire();
    shared->balance += 5;
    return nullptr;
}

int main() {
    Shared shared;
    pthread_t thread;
    shared.parker.unpark(); // a permit that is left from an earlier use
    pthread_create(&thread, nullptr, waiter, &shared);
    shared.balance = 10;
    shared.lock.release();
    pthread_join(thread, nullptr);
    std::printf("balance %d\n", shared.balance);
    return shared.balance == 15 ? 0 : 1;
}
