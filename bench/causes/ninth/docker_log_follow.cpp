/* class: deadlock (lock and full channel); fails by: hang; cause: the publisher waits for room in the channel of a subscriber while it holds the lock of the subscriber list, and the subscriber, who reads no more, needs that lock to leave the list */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

template <class T> class Chan {
public:
    explicit Chan(size_t cap) : cap_(cap) {}
    bool send(T v) {
        std::unique_lock<std::mutex> l(m_);
        while (q_.size() >= cap_ && !closed_)
            room_.wait(l); // CAUSE
        if (closed_)
            return false;
        q_.push_back(std::move(v));
        filled_.notify_one();
        return true;
    }
    bool recv(T &v) {
        std::unique_lock<std::mutex> l(m_);
        while (q_.empty() && !closed_)
            filled_.wait(l);
        if (q_.empty())
            return false;
        v = std::move(q_.front());
        q_.pop_front();
        room_.notify_one();
        return true;
    }
    void close() {
        std::lock_guard<std::mutex> g(m_);
        closed_ = true;
        room_.notify_all();
        filled_.notify_all();
    }

private:
    const size_t cap_;
    std::mutex m_;
    std::condition_variable room_, filled_;
    std::deque<T> q_;
    bool closed_ = false;
};

using Line = std::string;
using Subscriber = std::shared_ptr<Chan<Line>>;

class Publisher {
public:
    Subscriber subscribe() {
        std::lock_guard<std::mutex> g(m_);
        subscribers_.push_back(std::make_shared<Chan<Line>>(2));
        return subscribers_.back();
    }
    void evict(const Subscriber &s) {
        std::lock_guard<std::mutex> g(m_); // CAUSE
        subscribers_.remove(s);
        s->close();
    }
    void publish(const Line &line) {
        std::lock_guard<std::mutex> g(m_); // CAUSE
        for (auto &s : subscribers_)
            s->send(line);
        published++;
    }
    int published = 0;

private:
    std::mutex m_;
    std::list<Subscriber> subscribers_;
};

static Publisher logs;
static Chan<Line> commands(4), pty(4);
static int echoed;

/* the shell in the container: one line of output for a command, three at the end */
static void container() {
    Line cmd;
    while (commands.recv(cmd)) {
        if (cmd == "exit") {
            for (const char *bye : {"logout", "saving history", "session closed"})
                pty.send(bye);
            break;
        }
        pty.send("+ " + cmd);
    }
    pty.close();
}

/* what the container prints goes to the log and to all who follow it */
static void copier() {
    Line line;
    while (pty.recv(line))
        logs.publish(line);
}

static void attach() {
    Subscriber out = logs.subscribe();
    for (const char *c : {"ls", "uname -a", "df"}) {
        Line answer;
        commands.send(c);
        if (out->recv(answer) && answer == Line("+ ") + c)
            echoed++;
    }
    commands.send("exit");
    logs.evict(out);
}

int main() {
    std::thread shell(container), copy(copier), client(attach);
    client.join();
    commands.close();
    shell.join();
    copy.join();
    printf("%d lines published, %d commands echoed\n", logs.published, echoed);
    return logs.published == 6 && echoed == 3 ? 0 : 1;
}
