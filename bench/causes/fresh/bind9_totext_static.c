/* class: shared static buffer; fails by: wrong result; cause: the function that formats an address writes into one static buffer, and two client threads use it at the same time */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS 2
#define QUERIES 4

struct netaddr { unsigned char b[4]; };
struct logline { char text[48]; };

static struct logline querylog[CLIENTS][QUERIES];
static pthread_mutex_t statlock = PTHREAD_MUTEX_INITIALIZER;
static int logged;

static char *put_number(char *p, unsigned n)
{
    if (n >= 100)
        *p++ = '0' + n / 100;
    if (n >= 10)
        *p++ = '0' + n / 10 % 10;
    *p++ = '0' + n % 10;
    return p;
}

static const char *netaddr_totext(const struct netaddr *a)
{
    static char text[16];
    char tmp[16], *p = tmp;
    for (int i = 0; i < 4; i++) {
        p = put_number(p, a->b[i]);
        *p++ = i < 3 ? '.' : '\0';
    }
    strcpy(text, tmp);                            // CAUSE
    return text;
}

static void log_query(struct logline *l, const struct netaddr *a, const char *type)
{
    const char *who = netaddr_totext(a);
    strcpy(l->text, "client ");
    strcat(l->text, who);                         // CAUSE
    strcat(l->text, " query ");
    strcat(l->text, type);
    pthread_mutex_lock(&statlock);
    logged++;
    pthread_mutex_unlock(&statlock);
}

static void *client(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < QUERIES; i++) {
        struct netaddr a = { { 10, 0, (unsigned char)id, (unsigned char)(7 + 100 * id + i) } };
        log_query(&querylog[id][i], &a, i & 1 ? "AAAA" : "A");
    }
    return NULL;
}

int main(void)
{
    pthread_t t[CLIENTS];
    int bad = 0;
    for (long i = 0; i < CLIENTS; i++)
        pthread_create(&t[i], NULL, client, (void *)i);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(t[i], NULL);
    for (int c = 0; c < CLIENTS; c++)
        for (int i = 0; i < QUERIES; i++) {
            char want[48];
            snprintf(want, sizeof want, "client 10.0.%d.%d query %s", c, 7 + 100 * c + i, i & 1 ? "AAAA" : "A");
            if (strcmp(want, querylog[c][i].text)) {
                printf("wrong: %s\n", querylog[c][i].text);
                bad = 1;
            }
        }
    printf("%d logged\n", logged);
    return bad || logged != CLIENTS * QUERIES;
}
