/* correct twin of observer_erase: notify finds its place again by the key */
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

namespace {

constexpr int kStable = 4;
constexpr int kEvents = 4;
constexpr int kMoves = 3;

struct Listener {
    std::atomic<int> events{0};
    int weight = 0;

    void OnEvent(int n)
    {
        for (int i = 0; i < n; i++)
            weight = weight * 31 + i;
        events++;
    }
};

class Subject {
public:
    int Subscribe(Listener *l)
    {
        std::lock_guard<std::mutex> g(mutex_);
        listeners_.emplace(next_, l);
        return next_++;
    }

    int Resubscribe(int id)
    {
        std::lock_guard<std::mutex> g(mutex_);
        Listener *l = listeners_.at(id);
        listeners_.erase(id);
        listeners_.emplace(next_, l);
        return next_++;
    }

    void Notify(int n)
    {
        std::unique_lock<std::mutex> g(mutex_);
        auto it = listeners_.begin();
        while (it != listeners_.end()) {
            int id = it->first;
            Listener *l = it->second;
            g.unlock();
            l->OnEvent(n);
            g.lock();
            it = listeners_.upper_bound(id);
        }
    }

private:
    std::mutex mutex_;
    std::map<int, Listener *> listeners_;
    int next_ = 1;
};

Subject subject;
Listener stable[kStable];
Listener moving;

void Mover(int id)
{
    for (int i = 0; i < kMoves; i++) {
        id = subject.Resubscribe(id);
        std::this_thread::yield();
    }
}

void Notifier()
{
    for (int i = 1; i <= kEvents; i++)
        subject.Notify(i);
}

bool Report()
{
    bool good = true;
    for (const Listener &l : stable)
        if (l.events != kEvents) {
            std::printf("a listener has %d of %d events\n", l.events.load(), kEvents);
            good = false;
        }
    return good;
}

} // namespace

int main()
{
    subject.Subscribe(&stable[0]);
    int id = subject.Subscribe(&moving);
    for (int i = 1; i < kStable; i++)
        subject.Subscribe(&stable[i]);
    std::thread n(Notifier), m(Mover, id);
    n.join();
    m.join();
    if (!Report())
        return 1;
    std::printf("%d listeners\n", kStable);
    return 0;
}
