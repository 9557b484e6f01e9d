/* class: thread-unsafe library call (static state); fails by: wrong result; cause: both connections split their lines
 * with strtok, whose place in the line is one static variable, so that a call that continues goes on in the line of
 * the other thread */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS 2
#define LINES 3
#define FIELDS 4

struct request {
    int nfields;
    int value[FIELDS];
};

static struct request requests[CONNECTIONS][LINES];

static void parse_field(struct request *r, const char *field)
{
    const char *eq = strchr(field, '=');
    if (eq && r->nfields < FIELDS)
        r->value[r->nfields] = atoi(eq + 1);
    r->nfields++;
}

static void parse_line(struct request *r, char *line)
{
    char *field = strtok(line, ";");              // CAUSE
    while (field) {
        parse_field(r, field);
        field = strtok(NULL, ";");                // CAUSE
    }
}

static int expected(int connection, int line, int field)
{
    return 1000 * (connection + 1) + 10 * line + field;
}

static void *connection(void *arg)
{
    int id = (int)(long)arg;
    char line[96];
    for (int l = 0; l < LINES; l++) {
        int n = 0;
        for (int f = 0; f < FIELDS; f++)
            n += snprintf(line + n, sizeof line - n, "h%d=%d;", f, expected(id, l, f));
        parse_line(&requests[id][l], line);
    }
    return NULL;
}

static int check_request(int id, int l)
{
    const struct request *r = &requests[id][l];
    if (r->nfields != FIELDS) {
        printf("connection %d line %d: %d fields\n", id, l, r->nfields);
        return 1;
    }
    for (int f = 0; f < FIELDS; f++)
        if (r->value[f] != expected(id, l, f)) {
            printf("connection %d line %d: field %d is %d\n", id, l, f, r->value[f]);
            return 1;
        }
    return 0;
}

int main(void)
{
    pthread_t t[CONNECTIONS];
    int bad = 0;
    for (long i = 0; i < CONNECTIONS; i++)
        pthread_create(&t[i], NULL, connection, (void *)i);
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        for (int l = 0; l < LINES; l++)
            bad += check_request(i, l);
    if (bad)
        return 1;
    printf("%d requests\n", CONNECTIONS * LINES);
    return 0;
}
