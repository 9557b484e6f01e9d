/* class: none (correct twin of grpc_connectivity_watch: the watchers are called after the lock is released) */
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

class StateTracker {
public:
    using Watcher = std::function<void(int)>;

    int Watch(Watcher w) {
        std::lock_guard<std::mutex> g(mu_);
        int id = next_id_++;
        watchers_[id] = std::move(w);
        return id;
    }

    void Unwatch(int id) {
        std::lock_guard<std::mutex> g(mu_);
        watchers_.erase(id);
    }

    void SetState(int state) {
        std::map<int, Watcher> copy;
        {
            std::lock_guard<std::mutex> g(mu_);
            state_ = state;
            copy = watchers_;
        }
        for (auto& w : copy) w.second(state);
    }

    size_t size() {
        std::lock_guard<std::mutex> g(mu_);
        return watchers_.size();
    }

private:
    std::mutex mu_;
    std::map<int, Watcher> watchers_;
    int next_id_ = 1;
    int state_ = 0;
};

class Channel {
public:
    explicit Channel(StateTracker* t) : tracker_(t) { Subscribe(); }

    void OnState(int state) {
        std::lock_guard<std::mutex> g(mu_);
        last_state_ = state;
        ++notifications_;
    }

    void Reconfigure() {
        std::lock_guard<std::mutex> g(mu_);
        tracker_->Unwatch(watch_id_);
        Subscribe();
        ++generation_;
    }

    int generation() {
        std::lock_guard<std::mutex> g(mu_);
        return generation_;
    }

private:
    void Subscribe() {
        watch_id_ = tracker_->Watch([this](int s) { OnState(s); });
    }

    std::mutex mu_;
    StateTracker* tracker_;
    int watch_id_ = 0, last_state_ = 0, notifications_ = 0, generation_ = 0;
};

int main() {
    constexpr int kRounds = 12;
    StateTracker tracker;
    Channel channel(&tracker);

    std::thread transport([&] {
        for (int i = 0; i < kRounds; ++i) tracker.SetState(i % 4);
    });
    std::thread resolver([&] {
        for (int i = 0; i < kRounds; ++i) channel.Reconfigure();
    });
    transport.join();
    resolver.join();
    if (channel.generation() != kRounds || tracker.size() != 1) {
        std::printf("FAIL: generation %d, %zu watchers\n", channel.generation(), tracker.size());
        return 1;
    }
    std::printf("ok: generation %d\n", channel.generation());
    return 0;
}
