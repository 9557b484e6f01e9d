/* class: stale list iterator after another thread removed the element; fails by: abort; cause: activate() drops the lock to call a slot, another thread disconnects that connection and deletes it, and activate() goes on with the next pointer of the deleted connection */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

struct Receiver {
    std::mutex lock;
    long received = 0;
    int calls = 0;
    void slot(int value) {
        std::lock_guard<std::mutex> g(lock);
        for (int i = 0; i < 15; i++)
            received = (received * 3 + value + i) % 65521;
        calls++;
    }
};

struct Connection {
    static constexpr uint32_t kAlive = 0xc0ec7u;
    Receiver *receiver;
    Connection *next = nullptr;
    Connection *nextOrphan = nullptr;
    volatile uint32_t magic = kAlive;
    explicit Connection(Receiver *r) : receiver(r) {}
    ~Connection() { magic = 0; } // CAUSE
};

class Object {
    std::mutex signalSlotLock_;
    Connection *first_ = nullptr;
    Connection *orphans_ = nullptr;
    int inUse_ = 0;

    void release(Connection *c) {
        delete c;
    }

public:
    ~Object() {
        while (first_)
            disconnect(first_->receiver);
    }
    void connect(Receiver *r) {
        std::lock_guard<std::mutex> g(signalSlotLock_);
        Connection **p = &first_;
        while (*p)
            p = &(*p)->next;
        *p = new Connection(r);
    }
    bool disconnect(Receiver *r) {
        std::lock_guard<std::mutex> g(signalSlotLock_);
        for (Connection **p = &first_; *p; p = &(*p)->next) {
            Connection *c = *p;
            if (c->receiver != r)
                continue;
            *p = c->next;
            c->receiver = nullptr;
            release(c);
            return true;
        }
        return false;
    }
    int activate(int value) {
        int n = 0;
        std::unique_lock<std::mutex> g(signalSlotLock_);
        for (Connection *c = first_; c; c = c->next) { // CAUSE
            Receiver *r = c->receiver;
            if (!r)
                continue;
            g.unlock();
            r->slot(value);
            n++;
            g.lock();
            if (c->magic != Connection::kAlive) { // CAUSE
                std::fputs("activate: connection is gone\n", stderr);
                std::abort();
            }
        }
        return n;
    }
};

int main() {
    enum { RECEIVERS = 4, EMITS = 4 };
    Receiver rec[RECEIVERS];
    int delivered = 0, removed = 0, calls = 0;
    Object sender;
    for (auto &r : rec)
        sender.connect(&r);
    std::thread emitter([&] {
        for (int i = 0; i < EMITS; i++)
            delivered += sender.activate(i + 1);
    });
    std::thread closer([&] {
        for (int i = 0; i < RECEIVERS; i += 2) {
            if (sender.disconnect(&rec[i]))
                removed++;
        }
    });
    emitter.join();
    closer.join();
    delivered += sender.activate(99);
    for (auto &r : rec)
        calls += r.calls;
    std::printf("delivered %d removed %d\n", delivered, removed);
    return calls == delivered && removed == RECEIVERS / 2 ? 0 : 1;
}
