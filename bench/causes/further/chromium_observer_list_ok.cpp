/* class: none (correct twin of chromium_observer_list: the notifier goes through a copy of the list) */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

class Observer {
public:
    void OnEvent(int value) {
        events_.fetch_add(1);
        sum_.fetch_add(value);
    }
    int events() const { return events_.load(); }

private:
    std::atomic<int> events_{0};
    std::atomic<long> sum_{0};
};

class ObserverList {
public:
    void Add(Observer* o) {
        std::lock_guard<std::mutex> g(lock_);
        list_.push_back(o);
    }

    void Remove(Observer* o) {
        std::lock_guard<std::mutex> g(lock_);
        list_.erase(std::find(list_.begin(), list_.end(), o));
    }

    void Notify(int value) {
        std::vector<Observer*> copy;
        {
            std::lock_guard<std::mutex> g(lock_);
            copy = list_;
        }
        for (Observer* o : copy) o->OnEvent(value);
    }

private:
    std::mutex lock_;
    std::vector<Observer*> list_;
};

namespace {
constexpr int kEvents = 10;
constexpr int kTabs = 2;
constexpr int kPerTab = 2;

ObserverList g_observers;
std::vector<std::unique_ptr<Observer>> g_tab_observers[kTabs];
Observer g_services[3];

void TabClosing(int tab) {
    for (auto& o : g_tab_observers[tab]) {
        g_observers.Remove(o.get());
    }
}

void UiThread() {
    for (int i = 1; i <= kEvents; ++i) g_observers.Notify(i);
}
}  // namespace

int main() {
    for (int t = 0; t < kTabs; ++t) {
        for (int i = 0; i < kPerTab; ++i) {
            g_tab_observers[t].push_back(std::make_unique<Observer>());
            g_observers.Add(g_tab_observers[t].back().get());
        }
    }
    for (auto& s : g_services) g_observers.Add(&s);

    std::thread ui(UiThread);
    std::thread tab0(TabClosing, 0), tab1(TabClosing, 1);
    tab0.join();
    tab1.join();
    ui.join();

    for (auto& s : g_services) {
        if (s.events() != kEvents) {
            std::printf("FAIL: a service saw %d of %d events\n", s.events(), kEvents);
            return 1;
        }
    }
    std::printf("ok: %d events\n", kEvents);
    return 0;
}
