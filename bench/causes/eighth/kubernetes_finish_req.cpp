/* class: timeout against completion (sender on an unbuffered channel left without receiver); fails by: deadlock; cause: the request times out and its caller goes away before the handler sends its result on the unbuffered channel, so the handler waits for a receiver for ever and is joined at shutdown */
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

template <class T>
class Chan {
    std::mutex m_;
    std::condition_variable recv_, sent_;
    std::deque<T> queue_;
    const size_t capacity_;
    size_t taken_ = 0, put_ = 0;

public:
    explicit Chan(size_t capacity) : capacity_(capacity) {}
    void send(T v) {
        std::unique_lock<std::mutex> g(m_);
        queue_.push_back(std::move(v));
        const size_t mine = ++put_;
        recv_.notify_one();
        sent_.wait(g, [&] { return taken_ + capacity_ >= mine; }); // CAUSE
    }
    bool recv_for(std::chrono::milliseconds timeout, T *v) {
        std::unique_lock<std::mutex> g(m_);
        if (!recv_.wait_for(g, timeout, [&] { return !queue_.empty(); })) // CAUSE
            return false;
        *v = std::move(queue_.front());
        queue_.pop_front();
        taken_++;
        sent_.notify_all();
        return true;
    }
};

struct Object {
    std::string name;
    long resource_version = 0;
};

class ApiServer {
    std::mutex store_lock_;
    std::vector<Object> store_;
    std::mutex wg_lock_;
    std::vector<std::thread> handlers_;

    Object create(const std::string &name) {
        std::lock_guard<std::mutex> g(store_lock_);
        store_.push_back({name, long(store_.size()) + 1});
        return store_.back();
    }

public:
    unsigned served = 0, timed_out = 0;

    bool finish_request(std::chrono::milliseconds timeout, const std::string &name, Object *out) {
        auto ch = std::make_shared<Chan<Object>>(0);
        {
            std::lock_guard<std::mutex> g(wg_lock_);
            handlers_.emplace_back([this, ch, name] {
                Object o = create(name);
                ch->send(std::move(o)); // CAUSE
            });
        }
        bool ok = ch->recv_for(timeout, out);
        std::lock_guard<std::mutex> g(wg_lock_);
        if (ok) served++; else timed_out++;
        return ok;
    }
    size_t shutdown() {
        for (auto &h : handlers_)
            h.join();
        std::lock_guard<std::mutex> g(store_lock_);
        return store_.size();
    }
};

int main() {
    enum { CLIENTS = 2, REQUESTS = 2 };
    ApiServer server;
    std::vector<std::thread> clients;
    bool bad[CLIENTS] = {};
    for (int c = 0; c < CLIENTS; c++)
        clients.emplace_back([&server, &bad, c] {
            for (int r = 0; r < REQUESTS; r++) {
                std::string name = "pod-" + std::to_string(c) + "-" + std::to_string(r);
                Object o;
                if (server.finish_request(std::chrono::milliseconds(500), name, &o))
                    bad[c] |= o.name != name || o.resource_version < 1;
            }
        });
    for (auto &c : clients)
        c.join();
    size_t stored = server.shutdown();
    std::printf("served %u timed out %u stored %zu\n", server.served, server.timed_out, stored);
    return stored == CLIENTS * REQUESTS && !bad[0] && !bad[1] ? 0 : 1;
}
