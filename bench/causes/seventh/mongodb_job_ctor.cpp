/* class: order violation (thread started in the base class constructor); fails by: abort; cause: BackgroundJob starts its thread in its constructor, and the thread calls the virtual run() before the constructor of the derived class has put in its own method table: pure virtual method called */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class ClientRegistry {
    std::mutex lock_;
    std::condition_variable cond_;
    std::deque<std::string> requests_;
    std::map<std::string, int> clients_;
    bool stop_ = false;

public:
    void add(const std::string &name) {
        std::unique_lock<std::mutex> g(lock_);
        requests_.push_back(name);
        cond_.notify_all();
        while (clients_.count(name) == 0)
            cond_.wait(g);
    }
    void serve() {
        std::unique_lock<std::mutex> g(lock_);
        for (;;) {
            while (requests_.empty() && !stop_)
                cond_.wait(g);
            if (requests_.empty())
                return;
            while (!requests_.empty()) {
                int id = static_cast<int>(clients_.size()) + 1;
                clients_[requests_.front()] = id;
                requests_.pop_front();
                cond_.notify_all();
            }
        }
    }
    size_t stop() {
        std::lock_guard<std::mutex> g(lock_);
        stop_ = true;
        cond_.notify_all();
        return clients_.size();
    }
};

static ClientRegistry registry;

class BackgroundJob {
    std::string name_;
    std::thread thread_;

    void jobBody() {
        registry.add(name_);
        registry.add(name_ + ".cursor");
        registry.add(name_ + ".locker");
        run(); // CAUSE
    }

protected:
    explicit BackgroundJob(const std::string &name) : name_(name) {
        thread_ = std::thread(&BackgroundJob::jobBody, this); // CAUSE
    }

public:
    virtual ~BackgroundJob() {}
    virtual void run() = 0;
    void wait() { thread_.join(); }
};

struct Document {
    int id, expireAt;
};

class Collection {
    std::mutex lock_;
    std::vector<Document> docs_;

public:
    void insert(int id, int expireAt) {
        std::lock_guard<std::mutex> g(lock_);
        docs_.push_back({id, expireAt});
    }
    int removeExpired(int now) {
        std::lock_guard<std::mutex> g(lock_);
        int n = 0;
        for (size_t i = 0; i < docs_.size();) {
            if (docs_[i].expireAt <= now) {
                docs_.erase(docs_.begin() + static_cast<long>(i));
                n++;
            } else {
                i++;
            }
        }
        return n;
    }
    long checksum() {
        std::lock_guard<std::mutex> g(lock_);
        long sum = 0;
        for (auto &d : docs_)
            sum += d.id * 31 + 7;
        return sum;
    }
};

class TTLMonitor : public BackgroundJob {
    Collection &coll_;
    int passes_;

public:
    int removed = 0;
    TTLMonitor(Collection &c, int passes) : BackgroundJob("TTLMonitor"), coll_(c), passes_(passes) {} // CAUSE
    void run() override {
        for (int now = 1; now <= passes_; now++)
            removed += coll_.removeExpired(now * 10);
    }
};

int main() {
    std::thread server([] { registry.serve(); });
    Collection coll;
    std::vector<long> sums;
    for (int i = 0; i < 12; i++)
        coll.insert(i, i * 5);
    TTLMonitor ttl(coll, 4);
    std::thread snapshot([&] {
        for (int i = 0; i < 4; i++)
            sums.push_back(coll.checksum());
    });
    ttl.wait();
    snapshot.join();
    size_t clients = registry.stop();
    server.join();
    std::printf("removed %d snapshots %zu clients %zu\n", ttl.removed, sums.size(), clients);
    return ttl.removed == 9 && sums.size() == 4 ? 0 : 1;
}
