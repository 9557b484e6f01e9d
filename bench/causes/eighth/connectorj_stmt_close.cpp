/* class: lock order (two monitors taken in opposite orders); fails by: deadlock; cause: executeQuery holds the statement's monitor and asks for the connection's, while close of the connection holds its own monitor and asks for the statement's */
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

class Connection;

class Statement {
    Connection &conn_;
    std::recursive_mutex monitor_;
    bool closed_ = false;
    const int id_;

public:
    unsigned rows = 0;
    Statement(Connection &c, int id) : conn_(c), id_(id) {}
    bool execute_query(const std::string &sql);
    void real_close();
};

class Connection {
    friend class Statement;
    std::recursive_mutex monitor_;
    std::set<Statement *> open_statements_;
    bool closed_ = false;
    std::mutex log_lock_;
    std::vector<std::string> log_;

public:
    unsigned queries = 0, statements_closed = 0;

    void profile(const std::string &what) {
        std::lock_guard<std::mutex> g(log_lock_);
        log_.push_back(what);
    }
    std::unique_ptr<Statement> create_statement(int id) {
        std::lock_guard<std::recursive_mutex> g(monitor_);
        std::unique_ptr<Statement> s(new Statement(*this, id));
        open_statements_.insert(s.get());
        return s;
    }
    bool exec_sql(const std::string &sql, unsigned *rows) {
        std::lock_guard<std::recursive_mutex> g(monitor_); // CAUSE
        if (closed_)
            return false;
        queries++;
        *rows += unsigned(sql.size() % 7) + 1;
        return true;
    }
    void close() {
        std::lock_guard<std::recursive_mutex> g(monitor_); // CAUSE
        closed_ = true;
        for (Statement *s : open_statements_)
            s->real_close();
        open_statements_.clear();
        profile("connection closed");
    }
    size_t profiled() {
        std::lock_guard<std::mutex> g(log_lock_);
        return log_.size();
    }
};

bool Statement::execute_query(const std::string &sql) {
    const std::string text = "/* stmt " + std::to_string(id_) + " */ " + sql;
    std::lock_guard<std::recursive_mutex> g(monitor_); // CAUSE
    if (closed_)
        return false;
    if (!conn_.exec_sql(text, &rows))
        return false;
    conn_.profile(text);
    return true;
}

void Statement::real_close() {
    std::lock_guard<std::recursive_mutex> g(monitor_); // CAUSE
    if (!closed_) {
        closed_ = true;
        conn_.statements_closed++;
    }
}

int main() {
    Connection conn;
    std::vector<std::unique_ptr<Statement>> statements;
    unsigned done[2] = {0, 0};
    for (int i = 0; i < 3; i++)
        statements.push_back(conn.create_statement(i));
    std::thread pool_reaper;
    std::vector<std::thread> workers;
    for (int w = 0; w < 2; w++)
        workers.emplace_back([&, w] {
            static const char *const sql[] = {"SELECT 1", "SELECT * FROM t", "SHOW TABLES"};
            for (const char *q : sql)
                if (statements[size_t(w)]->execute_query(q))
                    done[w]++;
        });
    pool_reaper = std::thread([&] {
        conn.close();
    });
    for (auto &t : workers)
        t.join();
    pool_reaper.join();
    std::printf("queries %u, statements closed %u\n", conn.queries, conn.statements_closed);
    return conn.queries == done[0] + done[1] && conn.profiled() == conn.queries + 1 && conn.statements_closed == 3 ? 0 : 1;
}
