/* correct twin of linux_packet_version: the version is checked and changed with the lock of the socket held */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tpacket_version { TPACKET_V1, TPACKET_V2, TPACKET_V3 };
enum { SOCKETS = 2, BLOCKS = 4, BLOCK_SIZE = 64 };

struct packet_ring {
    char *_Atomic pg_vec;
    int blocks, retired;
};

struct packet_sock {
    pthread_mutex_t sk_lock;
    _Atomic int tp_version;
    struct packet_ring rx_ring;
};

/* the timers that have been started and not yet deleted */
static struct {
    pthread_mutex_t lock;
    struct packet_sock *armed[2 * SOCKETS];
} timers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void add_timer(struct packet_sock *po) {
    pthread_mutex_lock(&timers.lock);
    for (int i = 0; i < 2 * SOCKETS; i++) {
        if (!timers.armed[i]) {
            timers.armed[i] = po;
            break;
        }
    }
    pthread_mutex_unlock(&timers.lock);
}

static void del_timer_sync(struct packet_sock *po) {
    pthread_mutex_lock(&timers.lock);
    for (int i = 0; i < 2 * SOCKETS; i++)
        if (timers.armed[i] == po)
            timers.armed[i] = NULL;
    pthread_mutex_unlock(&timers.lock);
}

static void run_timers(void) {
    pthread_mutex_lock(&timers.lock);
    for (int i = 0; i < 2 * SOCKETS; i++) {
        struct packet_sock *po = timers.armed[i];
        if (po) {
            if (!po->rx_ring.pg_vec) {
                fprintf(stderr, "block timer fired on a freed ring\n");
                abort();
            }
            po->rx_ring.retired++;
        }
    }
    pthread_mutex_unlock(&timers.lock);
}

static int packet_set_ring(struct packet_sock *po, int blocks) {
    int err = 0;
    pthread_mutex_lock(&po->sk_lock);
    if (blocks && po->rx_ring.pg_vec) {
        err = -EBUSY;
    } else if (blocks) {
        char *pg_vec = calloc((size_t)blocks, BLOCK_SIZE);
        int version = po->tp_version;
        for (int i = 0; i < blocks; i++)
            memset(pg_vec + i * BLOCK_SIZE, version + 1, 16);
        po->rx_ring.blocks = blocks;
        po->rx_ring.pg_vec = pg_vec;
        if (version == TPACKET_V3)
            add_timer(po);
    } else if (po->rx_ring.pg_vec) {
        char *pg_vec = po->rx_ring.pg_vec;
        if (po->tp_version == TPACKET_V3)
            del_timer_sync(po);
        po->rx_ring.pg_vec = NULL;
        free(pg_vec);
    }
    pthread_mutex_unlock(&po->sk_lock);
    return err;
}

static int packet_setsockopt_version(struct packet_sock *po, int val) {
    if (val < TPACKET_V1 || val > TPACKET_V3)
        return -EINVAL;
    int err = 0;
    pthread_mutex_lock(&po->sk_lock);
    if (po->rx_ring.pg_vec)
        err = -EBUSY;
    else
        po->tp_version = val;
    pthread_mutex_unlock(&po->sk_lock);
    return err;
}

static struct packet_sock sock[SOCKETS];
static int ring_errors, version_busy;

static void *capture(void *arg) {
    (void)arg;
    for (int i = 0; i < SOCKETS; i++)
        if (packet_set_ring(&sock[i], BLOCKS) != 0)
            ring_errors++;
    return NULL;
}

static void *configure(void *arg) {
    (void)arg;
    for (int i = 0; i < SOCKETS; i++)
        if (packet_setsockopt_version(&sock[i], TPACKET_V1) == -EBUSY)
            version_busy++;
    return NULL;
}

int main(void) {
    pthread_t a, b;
    for (int i = 0; i < SOCKETS; i++) {
        pthread_mutex_init(&sock[i].sk_lock, NULL);
        sock[i].tp_version = TPACKET_V3;
    }
    pthread_create(&a, NULL, capture, NULL);
    pthread_create(&b, NULL, configure, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    run_timers();
    for (int i = 0; i < SOCKETS; i++)
        packet_set_ring(&sock[i], 0);
    run_timers();
    printf("%d rings failed, %d version changes refused\n", ring_errors, version_busy);
    return ring_errors == 0 ? 0 : 1;
}
