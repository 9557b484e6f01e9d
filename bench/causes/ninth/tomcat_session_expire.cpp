/* class: atomicity violation (check then act); fails by: wrong result; cause: the background thread sees an access count of zero, a request enters the session, and then the background thread expires the session that is in use */
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

class StandardSession {
public:
    explicit StandardSession(int id, long now) : id_(id), lastAccessed_(now) {}

    bool access(long now) {
        accessCount_.fetch_add(1); // CAUSE
        if (!valid_.load()) {
            accessCount_.fetch_sub(1);
            return false;
        }
        lastAccessed_.store(now);
        return true;
    }

    void endAccess(long now) {
        lastAccessed_.store(now);
        accessCount_.fetch_sub(1);
    }

    bool expireIfIdle(long now, long maxIdle) {
        if (now - lastAccessed_.load() < maxIdle)
            return false;
        if (accessCount_.load() > 0) // CAUSE
            return false;
        valid_.store(false); // CAUSE
        std::lock_guard<std::mutex> g(attributeLock_);
        attributes_.clear();
        return true;
    }

    void setAttribute(const std::string &name, int value) {
        std::lock_guard<std::mutex> g(attributeLock_);
        attributes_[name] = value;
    }

    int getAttribute(const std::string &name) {
        std::lock_guard<std::mutex> g(attributeLock_);
        auto it = attributes_.find(name);
        return it == attributes_.end() ? -1 : it->second;
    }

    bool isValid() const { return valid_.load(); }
    int id() const { return id_; }

private:
    const int id_;
    std::atomic<int> accessCount_{0};
    std::atomic<bool> valid_{true};
    std::atomic<long> lastAccessed_;
    std::mutex attributeLock_;
    std::map<std::string, int> attributes_;
};

class ManagerBase {
public:
    std::shared_ptr<StandardSession> findSession(int id) {
        std::lock_guard<std::mutex> g(lock_);
        auto it = sessions_.find(id);
        return it == sessions_.end() ? nullptr : it->second;
    }
    std::shared_ptr<StandardSession> createSession(int id, long now) {
        std::lock_guard<std::mutex> g(lock_);
        return sessions_[id] = std::make_shared<StandardSession>(id, now);
    }
    void processExpires(long now) {
        std::map<int, std::shared_ptr<StandardSession>> copy;
        {
            std::lock_guard<std::mutex> g(lock_);
            copy = sessions_;
        }
        for (auto &s : copy) {
            if (!s.second->expireIfIdle(now, 30))
                continue;
            std::lock_guard<std::mutex> g(lock_);
            auto it = sessions_.find(s.first);
            if (it != sessions_.end() && it->second == s.second)
                sessions_.erase(it);
            expired++;
        }
    }
    int expired = 0;

private:
    std::mutex lock_;
    std::map<int, std::shared_ptr<StandardSession>> sessions_;
};

static ManagerBase manager;
static int served, lost;

static void connector() {
    for (int i = 0; i < 3; i++) {
        int id = 100 + i;
        long now = 1020 + i;
        auto s = manager.findSession(id);
        if (!s || !s->access(now)) {
            s = manager.createSession(id, now);
            s->access(now);
        }
        s->setAttribute("cart", id * 7);
        std::string user = "user" + std::to_string(id);
        s->setAttribute(user, i);
        if (s->getAttribute("cart") != id * 7 || s->getAttribute(user) != i || !s->isValid()) {
            fprintf(stderr, "session %d expired during a request\n", s->id());
            lost++;
        }
        s->endAccess(now);
        served++;
    }
}

static void background() {
    for (long now = 1010; now <= 1040; now += 10)
        manager.processExpires(now);
}

int main() {
    for (int i = 0; i < 3; i++)
        manager.createSession(100 + i, 960);
    std::thread processor(background), exec(connector);
    processor.join();
    exec.join();
    printf("%d requests, %d sessions expired, %d lost\n", served, manager.expired, lost);
    return served == 3 && lost == 0 ? 0 : 1;
}
