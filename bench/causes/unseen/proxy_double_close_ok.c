/* correct twin of proxy_double_close: descriptor and mark change under the lock of the session */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SESSIONS 3
#define PUMPS 2

struct session {
    pthread_mutex_t lock;
    int fd;
    unsigned moved[PUMPS];
};

struct pump { struct session *s; int id; };

static struct session sessions[SESSIONS];
static int journals[SESSIONS];

static void session_close(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    int fd = s->fd;
    if (fd >= 0) {
        close(fd);
        s->fd = -1;
    }
    pthread_mutex_unlock(&s->lock);
}

static void *pump(void *arg)
{
    struct pump *p = arg;
    unsigned h = p->id;
    for (int i = 0; i < 100; i++)
        h = h * 31 + i;
    p->s->moved[p->id] = h;
    session_close(p->s);
    return NULL;
}

static int journal_open(int n)
{
    int fd = eventfd(0, EFD_NONBLOCK);
    if (fd < 0)
        perror("eventfd");
    return journals[n] = fd;
}

static void run_session(int n)
{
    struct session *s = &sessions[n];
    pthread_t t[PUMPS];
    struct pump p[PUMPS];
    pthread_mutex_init(&s->lock, NULL);
    s->fd = eventfd(0, EFD_NONBLOCK);
    for (int i = 0; i < PUMPS; i++) {
        p[i] = (struct pump){ s, i };
        pthread_create(&t[i], NULL, pump, &p[i]);
    }
    journal_open(n);
    for (int i = 0; i < PUMPS; i++)
        pthread_join(t[i], NULL);
}

static int write_journals(void)
{
    int lost = 0;
    for (int i = 0; i < SESSIONS; i++) {
        uint64_t v = i + 1, back = 0;
        if (write(journals[i], &v, sizeof v) != sizeof v
            || read(journals[i], &back, sizeof back) != sizeof back || back != v) {
            printf("journal %d is lost\n", i);
            lost++;
        }
    }
    return lost;
}

int main(void)
{
    for (int i = 0; i < SESSIONS; i++)
        run_session(i);
    if (write_journals())
        return 1;
    printf("%d sessions\n", SESSIONS);
    return 0;
}
