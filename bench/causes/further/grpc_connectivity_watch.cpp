/* class: deadlock (callback called with a lock held); fails by: deadlock;
 * cause: SetState calls the watchers with the tracker's lock held, and the channel's watcher takes the channel's lock;
 * another thread in Reconfigure holds the channel's lock and wants the tracker's lock to renew its watch. */
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
        std::lock_guard<std::mutex> g(mu_); // CAUSE
        watchers_.erase(id);
    }

    void SetState(int state) {
        std::lock_guard<std::mutex> g(mu_); // CAUSE
        state_ = state;
        for (auto& w : watchers_) w.second(state);
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
        std::lock_guard<std::mutex> g(mu_); // CAUSE
        last_state_ = state;
        ++notifications_;
    }

    void Reconfigure() {
        std::lock_guard<std::mutex> g(mu_); // CAUSE
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
