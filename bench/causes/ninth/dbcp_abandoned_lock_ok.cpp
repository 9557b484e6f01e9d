/* correct twin of dbcp_abandoned_lock: a connection that is closed lets go of its own lock before it is given back to the pool */
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class AbandonedObjectPool;

class PoolableConnection {
public:
    PoolableConnection(AbandonedObjectPool *pool, int id) : pool_(pool), id_(id) {}

    int execute(const std::string &sql, long now) {
        std::lock_guard<std::mutex> g(lock_);
        if (closed_)
            return -1;
        lastUsed_ = now;
        trace_.push_back(sql);
        return (int)sql.size();
    }
    void close();
    void open(long now) {
        std::lock_guard<std::mutex> g(lock_);
        closed_ = false;
        lastUsed_ = now;
        trace_.clear();
    }
    bool isAbandoned(long now, long timeout) {
        std::lock_guard<std::mutex> g(lock_);
        return !closed_ && now - lastUsed_ > timeout;
    }
    int id() const { return id_; }

private:
    AbandonedObjectPool *const pool_;
    const int id_;
    std::mutex lock_;
    bool closed_ = true;
    long lastUsed_ = 0;
    std::vector<std::string> trace_;
};

class AbandonedObjectPool {
public:
    explicit AbandonedObjectPool(int size) {
        for (int i = 0; i < size; i++) {
            all_.emplace_back(new PoolableConnection(this, i));
            idle_.push_back(all_.back().get());
        }
    }
    PoolableConnection *borrowObject(long now) {
        PoolableConnection *c;
        {
            std::lock_guard<std::mutex> g(lock_);
            if (idle_.empty())
                return nullptr;
            c = idle_.front();
            idle_.pop_front();
            active_.push_back(c);
        }
        c->open(now);
        return c;
    }
    void returnObject(PoolableConnection *c) {
        std::lock_guard<std::mutex> g(lock_);
        active_.remove(c);
        idle_.push_back(c);
        returned++;
    }
    int removeAbandoned(long now, long timeout) {
        int found = 0;
        std::lock_guard<std::mutex> g(lock_);
        for (PoolableConnection *c : active_)
            if (c->isAbandoned(now, timeout))
                found++;
        sweeps++;
        return found;
    }
    int returned = 0, sweeps = 0;

private:
    std::mutex lock_;
    std::vector<std::unique_ptr<PoolableConnection>> all_;
    std::list<PoolableConnection *> idle_, active_;
};

void PoolableConnection::close() {
    {
        std::lock_guard<std::mutex> g(lock_);
        if (closed_)
            return;
        closed_ = true;
        trace_.clear();
    }
    pool_->returnObject(this);
}

static AbandonedObjectPool pool(3);
static int executed[2];

static void client(int me) {
    for (int i = 0; i < 3; i++) {
        PoolableConnection *c = pool.borrowObject(i);
        if (!c)
            continue;
        for (int q = 0; q < 2; q++)
            if (c->execute("select " + std::to_string(q) + " from t" + std::to_string(me), i + q) > 0)
                executed[me]++;
        c->close();
    }
}

static void evictor() {
    for (long now = 0; now < 3; now++)
        if (pool.removeAbandoned(now, 100) != 0)
            fprintf(stderr, "connection taken for abandoned\n");
}

int main() {
    std::thread e(evictor), a(client, 0), b(client, 1);
    a.join();
    b.join();
    e.join();
    printf("%d statements, %d connections returned, %d sweeps\n", executed[0] + executed[1], pool.returned,
           pool.sweeps);
    return pool.returned == 6 && executed[0] == 6 && executed[1] == 6 ? 0 : 1;
}
