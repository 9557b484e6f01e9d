/* class: iterator invalidated (kept over a dropped lock); fails by: abort; cause: the idle sweep keeps its map iterator while it yields the lock, and a kill of that cursor erases the node and deletes the cursor, which the sweep goes on to use */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class ClientCursor {
    volatile uint32_t canary_ = 0xc0ffee;

public:
    const long id;
    const std::string ns;
    unsigned idle_ms = 0;
    ClientCursor(long n, std::string s) : id(n), ns(std::move(s)) {}
    ~ClientCursor() { canary_ = 0xdead; } // CAUSE
    void check() const {
        if (canary_ != 0xc0ffee) { // CAUSE
            std::fprintf(stderr, "ClientCursor: invalid cursor in map\n");
            std::abort();
        }
    }
    bool should_timeout(unsigned ms) {
        check();
        idle_ms += ms;
        return idle_ms > 600;
    }
};

class CursorManager {
    std::mutex mutex_;
    std::map<long, ClientCursor *> by_id_;
    long next_id_ = 1;
    std::mutex report_mutex_;
    std::vector<long> report_;

    void log_idle(long id) {
        std::lock_guard<std::mutex> g(report_mutex_);
        report_.push_back(id);
    }

public:
    unsigned opened = 0, killed = 0, timed_out = 0;

    long open(const std::string &ns) {
        std::lock_guard<std::mutex> g(mutex_);
        long id = next_id_++;
        by_id_[id] = new ClientCursor(id, ns);
        opened++;
        return id;
    }
    bool kill(long id) {
        std::lock_guard<std::mutex> g(mutex_);
        auto it = by_id_.find(id);
        if (it == by_id_.end())
            return false;
        delete it->second; // CAUSE
        by_id_.erase(it); // CAUSE
        killed++;
        return true;
    }
    void idle_report(unsigned ms) {
        std::unique_lock<std::mutex> lk(mutex_);
        for (auto it = by_id_.begin(); it != by_id_.end();) {
            const long id = it->first;
            lk.unlock();
            log_idle(id);
            lk.lock();
            if (it->second->should_timeout(ms)) { // CAUSE
                delete it->second;
                it = by_id_.erase(it);
                timed_out++;
            } else
                ++it; // CAUSE
        }
    }
    size_t left() {
        std::lock_guard<std::mutex> g(mutex_);
        return by_id_.size();
    }
    size_t reports() {
        std::lock_guard<std::mutex> g(report_mutex_);
        return report_.size();
    }
    ~CursorManager() {
        for (auto &p : by_id_)
            delete p.second;
    }
};

int main() {
    CursorManager cursors;
    std::vector<long> ids;
    static const char *const ns[] = {"test.users", "test.orders", "local.oplog.rs", "admin.system"};
    for (int i = 0; i < 6; i++)
        ids.push_back(cursors.open(ns[i % 4]));
    std::thread monitor([&] {
        for (int round = 0; round < 2; round++)
            cursors.idle_report(250);
    });
    std::thread client([&] {
        for (size_t i = 1; i < ids.size(); i += 2)
            cursors.kill(ids[i]);
        cursors.open("test.users");
    });
    monitor.join();
    client.join();
    std::printf("opened %u killed %u timed out %u left %zu reports %zu\n", cursors.opened, cursors.killed,
                cursors.timed_out, cursors.left(), cursors.reports());
    return cursors.killed == 3 && cursors.opened == cursors.killed + cursors.timed_out + cursors.left() ? 0 : 1;
}
