/* correct twin of mapreduce_speculative_kill: a killed attempt leaves an entry in the table, so a container that asks later is told to stop */
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Task {
    int attempt = 0;
    int split = 0;
    bool aborted = false;
    long output = 0;
};

/* the side of the application master that the containers talk to */
class TaskAttemptListener {
public:
    void containerStarted() {
        std::lock_guard<std::mutex> g(m_);
        started_++;
        finished_.notify_all();
    }
    void waitForContainers(int n) {
        std::unique_lock<std::mutex> l(m_);
        while (started_ < n)
            finished_.wait(l);
    }
    void registerTask(int jvm, const std::shared_ptr<Task> &t) {
        std::lock_guard<std::mutex> g(m_);
        byJvm_[jvm] = t;
        assigned_.notify_all();
    }
    void unregister(int jvm) {
        std::lock_guard<std::mutex> g(m_);
        byJvm_[jvm] = nullptr;
        assigned_.notify_all();
        killed_++;
    }
    std::shared_ptr<Task> getTask(int jvm) {
        std::unique_lock<std::mutex> l(m_);
        for (;;) {
            auto it = byJvm_.find(jvm);
            if (it != byJvm_.end())
                return it->second;
            assigned_.wait(l);
        }
    }
    bool statusUpdate(int jvm) {
        std::lock_guard<std::mutex> g(m_);
        return byJvm_[jvm] != nullptr;
    }
    void done(int jvm, long output) {
        std::lock_guard<std::mutex> g(m_);
        results_[jvm] = output;
        finished_.notify_all();
    }
    int waitForFirst() {
        std::unique_lock<std::mutex> l(m_);
        while (results_.empty())
            finished_.wait(l);
        return results_.begin()->first;
    }
    long result(int jvm) {
        std::lock_guard<std::mutex> g(m_);
        return results_.count(jvm) ? results_[jvm] : -1;
    }
    int killed() {
        std::lock_guard<std::mutex> g(m_);
        return killed_;
    }

private:
    std::mutex m_;
    std::condition_variable assigned_, finished_;
    std::map<int, std::shared_ptr<Task>> byJvm_;
    std::map<int, long> results_;
    int started_ = 0, killed_ = 0;
};

static TaskAttemptListener listener;

static long mapSplit(int split, int jvm, bool *aborted) {
    long sum = 0;
    for (int block = 0; block < 8; block++) {
        for (int i = 0; i < 600; i++)
            sum += (split * 131 + block * 17 + i) % 97;
        if (!listener.statusUpdate(jvm)) {
            *aborted = true;
            return -1;
        }
    }
    return sum;
}

static void container(int jvm) {
    listener.containerStarted();
    std::shared_ptr<Task> t = listener.getTask(jvm);
    if (!t)
        return;
    t->output = mapSplit(t->split, jvm, &t->aborted);
    if (!t->aborted)
        listener.done(jvm, t->output);
}

int main() {
    std::vector<std::thread> containers;
    std::vector<std::shared_ptr<Task>> attempts;
    for (int jvm = 0; jvm < 2; jvm++) {
        auto t = std::make_shared<Task>();
        t->attempt = jvm;
        t->split = 5;
        attempts.push_back(t);
        listener.registerTask(jvm, t);
        containers.emplace_back(container, jvm);
    }
    listener.waitForContainers(2);
    int winner = listener.waitForFirst();
    listener.unregister(1 - winner);
    for (auto &c : containers)
        c.join();
    long output = listener.result(winner);
    bool aborted = attempts[winner]->aborted;
    printf("attempt %d won with %ld, %d attempts killed\n", winner, output, listener.killed());
    return output > 0 && !aborted ? 0 : 1;
}
