/* class: future (result and callback pass one another); fails by: wrong result; cause: (after folly's futures) one
 * thread looks for a result and then stores its callback, the other stores the result and then looks for a callback;
 * when both come between the look and the store of the first, nobody calls the callback */
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kFutures = 5;

class Core {
public:
    void SetCallback(std::function<void(int)> callback)
    {
        if (has_result_.load()) {                 // CAUSE
            callback(result_);
            return;
        }
        callback_ = std::move(callback);
        has_callback_.store(true);                // CAUSE
    }

    void SetResult(int result)
    {
        result_ = result;
        has_result_.store(true);                  // CAUSE
        if (has_callback_.load())                 // CAUSE
            callback_(result_);
    }

private:
    std::atomic<bool> has_result_{false};
    std::atomic<bool> has_callback_{false};
    int result_ = 0;
    std::function<void(int)> callback_;
};

int Parse(const std::string &text)
{
    int value = 0;
    for (char c : text)
        value = value * 10 + (c - '0');
    return value;
}

} // namespace

int main()
{
    std::vector<std::unique_ptr<Core>> cores;
    std::atomic<int> calls{0};
    std::atomic<int> sum{0};
    int expected = 0;
    for (int i = 0; i < kFutures; i++) {
        cores.push_back(std::make_unique<Core>());
        expected += 100 * i + 11;
    }

    std::thread fulfiller([&cores] {
        for (int i = 0; i < kFutures; i++) {
            int value = Parse(std::to_string(100 * i + 11));
            cores[i]->SetResult(value);
        }
    });
    std::thread requester([&cores, &calls, &sum] {
        for (int i = 0; i < kFutures; i++)
            cores[i]->SetCallback([&calls, &sum](int value) {
                calls.fetch_add(1);
                sum.fetch_add(value);
            });
    });
    fulfiller.join();
    requester.join();
    std::printf("%d calls of %d, sum %d of %d\n", calls.load(), kFutures, sum.load(), expected);
    return calls.load() != kFutures || sum.load() != expected;
}
