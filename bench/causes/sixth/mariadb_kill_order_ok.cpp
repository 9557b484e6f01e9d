/* repaired twin of mariadb_kill_order.cpp */
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

struct THD;
struct handlerton {
    void (*kill_query)(THD *);
};

struct THD {
    std::mutex LOCK_thd_data;
    unsigned id = 0;
    int killed = 0;
    unsigned queries = 0;
    bool waiting = false;      /* protected by lock_sys.mutex */
    int weight = 0;
};

static struct {
    std::mutex mutex;
    std::vector<THD *> waiters;
    unsigned checks = 0, cancelled = 0;
} lock_sys;

static THD thds[3];
static std::mutex LOCK_status;
static unsigned status_kills, status_queries;

static void awake(THD *thd, int how) {
    thd->LOCK_thd_data.lock();
    if (thd->killed < how)
        thd->killed = how;
    thd->LOCK_thd_data.unlock();
}

static void innobase_kill_query(THD *thd) {
    std::lock_guard<std::mutex> g(lock_sys.mutex);
    if (thd->waiting) {
        thd->waiting = false;
        lock_sys.cancelled++;
    }
}

static handlerton innodb = { innobase_kill_query };

static void kill_one_thread(THD *thd) {
    {
        std::lock_guard<std::mutex> g(thd->LOCK_thd_data);
        thd->killed = 2;
        innodb.kill_query(thd);
    }
    std::lock_guard<std::mutex> g(LOCK_status);
    status_kills++;
}

static void deadlock_check() {
    THD *victim = nullptr;
    lock_sys.mutex.lock();
    lock_sys.checks++;
    for (THD *t : lock_sys.waiters)
        if (t->waiting && (!victim || t->weight < victim->weight))
            victim = t;
    if (victim)
        victim->waiting = false;
    lock_sys.mutex.unlock();
    if (victim)
        awake(victim, 1);
}

static void run_query(THD *thd) {
    {
        std::lock_guard<std::mutex> g(thd->LOCK_thd_data);
        thd->queries++;
    }
    std::lock_guard<std::mutex> g(LOCK_status);
    status_queries++;
}

static void connection() {
    for (int i = 0; i < 6; i++)
        run_query(&thds[i % 2]);
}

static void killer() {
    run_query(&thds[0]);
    kill_one_thread(&thds[1]);
}

static void checker() {
    for (int i = 0; i < 3; i++)
        deadlock_check();
}

int main() {
    for (unsigned i = 0; i < 3; i++) {
        thds[i].id = i;
        thds[i].waiting = i != 0;
        thds[i].weight = (int)(3 - i) * 10;
        lock_sys.waiters.push_back(&thds[i]);
    }
    thds[1].weight = 1;
    std::thread a(connection), b(killer), c(checker);
    a.join();
    b.join();
    c.join();
    std::printf("kills %u queries %u checks %u\n", status_kills, status_queries, lock_sys.checks);
    return thds[1].killed == 2 && thds[2].killed == 1 ? 0 : 1;
}
