/* class: bit field sharing a word with a differently locked field; fails by: wrong result; cause: the option thread loads the flag word to set its own bit, the connect thread stores its bit in between, and the option thread writes the old word back (or the other way round) */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { OPTS = 6, SEGS = 6 };

struct inet_sock {
    pthread_mutex_t sock_lock;   /* options */
    pthread_mutex_t rx_lock;     /* connection state */
    volatile unsigned char recverr : 1, freebind : 1, hdrincl : 1, mc_loop : 1, /* sock_lock */
        defer_connect : 1, fast_reply : 1;                                      /* rx_lock */
    unsigned opt_calls, rx_segs;
    unsigned long rx_bytes;
};

static struct inet_sock sk = {
    .sock_lock = PTHREAD_MUTEX_INITIALIZER,
    .rx_lock = PTHREAD_MUTEX_INITIALIZER,
};

enum { IP_RECVERR, IP_FREEBIND, IP_HDRINCL, IP_MULTICAST_LOOP };

static void ip_setsockopt(struct inet_sock *inet, int opt, unsigned val) {
    pthread_mutex_lock(&inet->sock_lock);
    inet->opt_calls++;
    switch (opt) {
    case IP_RECVERR:
        inet->recverr = val; // CAUSE
        break;
    case IP_FREEBIND:
        inet->freebind = val; // CAUSE
        break;
    case IP_HDRINCL:
        inet->hdrincl = val; // CAUSE
        break;
    default:
        inet->mc_loop = val; // CAUSE
    }
    pthread_mutex_unlock(&inet->sock_lock);
}

static void tcp_rcv(struct inet_sock *inet, unsigned seg, unsigned len) {
    pthread_mutex_lock(&inet->rx_lock);
    inet->rx_segs++;
    inet->rx_bytes += len;
    if (seg == 3)
        inet->defer_connect = 1; // CAUSE
    pthread_mutex_unlock(&inet->rx_lock);
}

static void *option_thread(void *arg) {
    struct inet_sock *inet = arg;
    static const int order[OPTS] = { IP_HDRINCL, IP_MULTICAST_LOOP, IP_FREEBIND, IP_HDRINCL, IP_RECVERR, IP_MULTICAST_LOOP };
    for (int i = 0; i < OPTS; i++)
        ip_setsockopt(inet, order[i], (unsigned)(i >= 2));
    return NULL;
}

static void *softirq_thread(void *arg) {
    struct inet_sock *inet = arg;
    for (unsigned i = 0; i < SEGS; i++)
        tcp_rcv(inet, i, 100 + i);
    return NULL;
}

int main(void) {
    pthread_t t[2];
    ip_setsockopt(&sk, IP_RECVERR, 1);
    ip_setsockopt(&sk, IP_FREEBIND, 1);
    ip_setsockopt(&sk, IP_MULTICAST_LOOP, 1);
    pthread_create(&t[0], NULL, option_thread, &sk);
    pthread_create(&t[1], NULL, softirq_thread, &sk);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    printf("opts %u segs %u bytes %lu\n", sk.opt_calls, sk.rx_segs, sk.rx_bytes);
    if (!sk.defer_connect) {
        puts("defer_connect was lost");
        return 1;
    }
    if (!sk.hdrincl || !sk.recverr || !sk.freebind || !sk.mc_loop) {
        puts("an option was lost");
        return 1;
    }
    return 0;
}
