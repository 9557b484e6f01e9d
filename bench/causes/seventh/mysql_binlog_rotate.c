/* class: atomicity violation over one variable; fails by: wrong result; cause: a log rotation sets log_type to LOG_CLOSED and back to LOG_OPENED under LOCK_log, a committing session reads log_type without that lock in between, takes the binary log to be switched off and does not write its event */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LOG_CLOSED, LOG_OPENED };
enum { SESSIONS = 2, COMMITS = 8, ROTATIONS = 3, MAX_EVENTS = 64, ROWS = 8 };

struct event {
    unsigned session, seq, file;
    uint32_t crc;
};

struct binlog {
    pthread_mutex_t lock_log;
    volatile int log_type;
    unsigned file_no;
    char file_name[32];
    struct event events[MAX_EVENTS];
    unsigned n_events;
};

struct engine {
    pthread_mutex_t lock;
    long rows[ROWS];
    unsigned commits;
};

static struct binlog mysql_bin_log = { .lock_log = PTHREAD_MUTEX_INITIALIZER };
static struct engine innodb = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint32_t checksum(const void *p, size_t n) {
    const unsigned char *c = p;
    uint32_t h = 2166136261u;
    while (n--)
        h = (h ^ *c++) * 16777619u;
    return h;
}

static void log_open(struct binlog *log) {
    log->file_no++;
    snprintf(log->file_name, sizeof log->file_name, "bin.%06u", log->file_no);
    log->log_type = LOG_OPENED; // CAUSE
}

static void log_close(struct binlog *log) {
    log->log_type = LOG_CLOSED; // CAUSE
}

static void log_rotate(struct binlog *log) {
    pthread_mutex_lock(&log->lock_log);
    log_close(log);
    log_open(log);
    pthread_mutex_unlock(&log->lock_log);
}

static void append_event(struct binlog *log, unsigned session, unsigned seq) {
    struct event *e = &log->events[log->n_events++];
    e->session = session, e->seq = seq, e->file = log->file_no;
    e->crc = checksum(e, offsetof(struct event, crc));
}

static void log_write(struct binlog *log, unsigned session, unsigned seq) {
    if (log->log_type != LOG_OPENED) // CAUSE
        return;
    pthread_mutex_lock(&log->lock_log);
    append_event(log, session, seq);
    pthread_mutex_unlock(&log->lock_log);
}

static void engine_commit(unsigned session, unsigned seq) {
    pthread_mutex_lock(&innodb.lock);
    for (unsigned i = 0; i < ROWS; i++)
        innodb.rows[i] += session + seq * i;
    innodb.commits++;
    pthread_mutex_unlock(&innodb.lock);
}

static void *session_thread(void *arg) {
    unsigned id = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < COMMITS; i++) {
        engine_commit(id, i);
        log_write(&mysql_bin_log, id, i);
    }
    return NULL;
}

static void *flush_thread(void *arg) {
    for (int i = 0; i < ROTATIONS; i++)
        log_rotate(arg);
    return NULL;
}

int main(void) {
    pthread_t t[SESSIONS + 1];
    unsigned bad = 0;
    log_open(&mysql_bin_log);
    for (unsigned i = 0; i < SESSIONS; i++)
        pthread_create(&t[i], NULL, session_thread, (void *)(uintptr_t)(i + 1));
    pthread_create(&t[SESSIONS], NULL, flush_thread, &mysql_bin_log);
    for (int i = 0; i <= SESSIONS; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < mysql_bin_log.n_events; i++) {
        struct event *e = &mysql_bin_log.events[i];
        if (e->crc != checksum(e, offsetof(struct event, crc)))
            bad++;
    }
    printf("commits %u events %u last file %s\n", innodb.commits,
           mysql_bin_log.n_events, mysql_bin_log.file_name);
    if (bad || mysql_bin_log.n_events != innodb.commits) {
        puts("replica would miss a committed transaction");
        return 1;
    }
    return 0;
}
