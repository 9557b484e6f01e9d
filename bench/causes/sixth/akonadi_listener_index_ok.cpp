/* repaired twin of akonadi_listener_index.cpp */
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

constexpr int kChanges = 5;

struct Change {
    int item;
    int revision;
};

class Listener {
    std::mutex lock_;
    int received_ = 0;
    long revisions_ = 0;

public:
    explicit Listener(int id) : id(id) {}
    const int id;
    void itemChanged(const Change &c) {
        std::lock_guard<std::mutex> g(lock_);
        received_++;
        revisions_ += c.revision;
    }
    int received() {
        std::lock_guard<std::mutex> g(lock_);
        return received_;
    }
};

using ListenerPtr = std::shared_ptr<Listener>;

class NotificationManager {
    std::mutex lock_;
    std::vector<ListenerPtr> listeners_;
    int sent_ = 0;

public:
    void subscribe(const ListenerPtr &l) {
        std::lock_guard<std::mutex> g(lock_);
        listeners_.push_back(l);
    }
    void unsubscribe(const Listener *l) {
        std::lock_guard<std::mutex> g(lock_);
        for (size_t i = 0; i < listeners_.size(); i++)
            if (listeners_[i].get() == l) {
                listeners_.erase(listeners_.begin() + (long)i);
                return;
            }
    }
    void notify(const Change &c) {
        std::unique_lock<std::mutex> g(lock_);
        sent_++;
        std::vector<ListenerPtr> snapshot(listeners_);
        g.unlock();
        for (const ListenerPtr &l : snapshot)
            l->itemChanged(c);
    }
    int sent() {
        std::lock_guard<std::mutex> g(lock_);
        return sent_;
    }
};

static NotificationManager manager;
static ListenerPtr agents[4];

static void storage_thread() {
    for (int i = 0; i < kChanges; i++) {
        Change c = { i, i + 100 };
        manager.notify(c);
    }
}

static void client_thread() {
    auto tmp = std::make_shared<Listener>(50);
    manager.subscribe(tmp);
    manager.unsubscribe(agents[0].get());
    manager.unsubscribe(tmp.get());
}

int main() {
    for (int i = 0; i < 4; i++) {
        agents[i] = std::make_shared<Listener>(i);
        manager.subscribe(agents[i]);
    }
    std::thread a(storage_thread), b(client_thread);
    a.join();
    b.join();
    int bad = 0;
    for (int i = 1; i < 4; i++)
        if (agents[i]->received() != manager.sent()) {
            std::printf("agent %d got %d of %d changes\n", i, agents[i]->received(), manager.sent());
            bad = 1;
        }
    std::printf("sent %d\n", manager.sent());
    return bad;
}
