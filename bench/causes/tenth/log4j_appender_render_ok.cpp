/* correct twin of log4j_appender_render: the message is rendered before the lock of the appender is taken */
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class Renderable {
public:
    virtual ~Renderable() = default;
    virtual std::string toString() const = 0;
};

class Text : public Renderable {
public:
    explicit Text(std::string text) : text_(std::move(text)) {}
    std::string toString() const override { return text_; }

private:
    const std::string text_;
};

struct LoggingEvent {
    const char *level;
    const Renderable &message;
};

class Appender {
public:
    void doAppend(const LoggingEvent &event) {
        std::string line = std::string(event.level) + " " + event.message.toString();
        std::lock_guard<std::mutex> guard(mutex_);
        lines_.push_back(std::move(line));
    }

    size_t lineCount() {
        std::lock_guard<std::mutex> guard(mutex_);
        return lines_.size();
    }

private:
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

class Session : public Renderable {
public:
    Session(Appender &appender, std::string user) : appender_(appender), user_(std::move(user)) {}

    void touch() {
        std::lock_guard<std::mutex> guard(mutex_);
        requests_++;
        Text text("request of " + user_);
        appender_.doAppend({"DEBUG", text});
    }

    std::string toString() const override {
        std::lock_guard<std::mutex> guard(mutex_);
        return "session " + user_ + " with " + std::to_string(requests_) + " requests";
    }

private:
    Appender &appender_;
    const std::string user_;
    mutable std::mutex mutex_;
    int requests_ = 0;
};

int main() {
    constexpr int rounds = 2;
    Appender appender;
    Session session(appender, "duke");
    std::thread requests([&] {
        for (int i = 0; i < rounds; i++)
            session.touch();
    });
    std::thread monitor([&] {
        for (int i = 0; i < rounds; i++)
            appender.doAppend({"INFO", session});
    });
    requests.join();
    monitor.join();
    std::printf("%zu lines, %s\n", appender.lineCount(), session.toString().c_str());
    return appender.lineCount() == 2 * rounds ? 0 : 1;
}
