/* class: check-then-act on a container (queue); fails by: wrong result; cause: a worker reads the front of the queue
 * and removes the front in two locked calls, and another worker reads the same front in between, so that one order
 * is shipped twice and the next one is removed unread */
#include <cstdio>
#include <mutex>
#include <queue>
#include <semaphore.h>
#include <string>
#include <thread>

namespace {

constexpr int kWorkers = 2;
constexpr int kOrders = 8;
constexpr int kEnd = -1;

struct Order {
    int number;
    std::string item;
};

template <class T> class SafeQueue {
public:
    void Push(T v)
    {
        std::lock_guard<std::mutex> l(mutex_);
        queue_.push(std::move(v));
    }
    T Front() const
    {
        std::lock_guard<std::mutex> l(mutex_);
        return queue_.front();                    // CAUSE
    }
    void Pop()
    {
        std::lock_guard<std::mutex> l(mutex_);
        queue_.pop();                             // CAUSE
    }
    T Take()
    {
        std::lock_guard<std::mutex> l(mutex_);
        T v = queue_.front();
        queue_.pop();
        return v;
    }

private:
    mutable std::mutex mutex_;
    std::queue<T> queue_;
};

SafeQueue<Order> orders;
sem_t available;
std::mutex ship_mutex;
int shipped[kOrders];

bool Ship(const Order &o)
{
    if (o.number == kEnd)
        return false;
    std::lock_guard<std::mutex> l(ship_mutex);
    shipped[o.number]++;
    return true;
}

void Worker()
{
    for (int i = 0; i < kOrders / kWorkers; i++) {
        sem_wait(&available);
        Order o = orders.Front();
        orders.Pop();
        if (!Ship(o))
            break;
    }
}

int CheckBooks()
{
    int wrong = 0;
    for (int i = 0; i < kOrders; i++)
        if (shipped[i] != 1) {
            std::printf("order %d shipped %d times\n", i, shipped[i]);
            wrong++;
        }
    return wrong;
}

} // namespace

int main()
{
    std::thread w[kWorkers];
    sem_init(&available, 0, 0);
    for (auto &t : w)
        t = std::thread(Worker);
    for (int i = 0; i < kOrders; i++) {
        orders.Push(Order{i, "item" + std::to_string(i)});
        sem_post(&available);
    }
    for (auto &t : w)
        t.join();
    sem_destroy(&available);
    if (CheckBooks())
        return 1;
    std::printf("%d orders\n", kOrders);
    return 0;
}
