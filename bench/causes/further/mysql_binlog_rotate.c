/* class: lock dropped in the middle of an operation (atomicity); fails by: wrong result;
 * cause: the rotator closes the binlog, drops the lock to prepare the next file and takes it again to reopen;
 * a committer that takes the lock in between finds the log closed, takes it for switched off, and its
 * transaction is stored in the table but missing from the log. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COMMITTERS 2
#define TRX 25
#define ROTATIONS 4

struct binlog {
    pthread_mutex_t lock;
    int is_open;
    int file_no;
    char header[16];
    unsigned events;
    unsigned long sum;
};

static struct binlog mysql_bin_log = { .lock = PTHREAD_MUTEX_INITIALIZER };
static unsigned long engine_sum[COMMITTERS];

static void format_header(char *buf, int file_no)
{
    memset(buf, 0, 16);
    memcpy(buf, "\xfe" "bin.", 5);
    for (int i = 0; i < 6; i++) {
        buf[10 - i] = (char)('0' + file_no % 10);
        file_no /= 10;
    }
}

static void binlog_open(struct binlog *log, const char *header)
{
    memcpy(log->header, header, sizeof log->header);
    log->file_no++;
    log->is_open = 1;
}

static void binlog_rotate(struct binlog *log)
{
    char header[16];
    int next;

    pthread_mutex_lock(&log->lock);
    log->is_open = 0; // CAUSE
    next = log->file_no + 1;
    pthread_mutex_unlock(&log->lock);
    format_header(header, next);
    pthread_mutex_lock(&log->lock);
    binlog_open(log, header); // CAUSE
    pthread_mutex_unlock(&log->lock);
}

static void binlog_write(struct binlog *log, unsigned long ev)
{
    pthread_mutex_lock(&log->lock);
    if (log->is_open) { // CAUSE
        log->events++;
        log->sum += ev;
    }
    pthread_mutex_unlock(&log->lock);
}

static void *committer(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 1; i <= TRX; i++) {
        unsigned long row = (unsigned long)(i * 10 + id);
        engine_sum[id] += row;
        binlog_write(&mysql_bin_log, row);
    }
    return NULL;
}

static void *rotator(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROTATIONS; i++)
        binlog_rotate(&mysql_bin_log);
    return NULL;
}

int main(void)
{
    pthread_t c[COMMITTERS], r;
    char header[16];
    unsigned long engine = 0;

    format_header(header, 1);
    binlog_open(&mysql_bin_log, header);
    for (long i = 0; i < COMMITTERS; i++)
        pthread_create(&c[i], NULL, committer, (void *)i);
    pthread_create(&r, NULL, rotator, NULL);
    for (int i = 0; i < COMMITTERS; i++)
        pthread_join(c[i], NULL);
    pthread_join(r, NULL);
    for (int i = 0; i < COMMITTERS; i++)
        engine += engine_sum[i];
    if (mysql_bin_log.events != COMMITTERS * TRX || mysql_bin_log.sum != engine) {
        printf("FAIL: binlog has %u of %d transactions\n", mysql_bin_log.events, COMMITTERS * TRX);
        return 1;
    }
    printf("ok: %u transactions in %d files\n", mysql_bin_log.events, mysql_bin_log.file_no);
    return 0;
}
