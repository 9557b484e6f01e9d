/* correct twin of folly_core_callback: whoever comes second finds that out with one exchange of the state */
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
        callback_ = std::move(callback);
        if (state_.exchange(kOnlyCallback) == kOnlyResult)
            callback_(result_);
    }

    void SetResult(int result)
    {
        result_ = result;
        if (state_.exchange(kOnlyResult) == kOnlyCallback)
            callback_(result_);
    }

private:
    enum State { kStart, kOnlyResult, kOnlyCallback };
    std::atomic<State> state_{kStart};
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
