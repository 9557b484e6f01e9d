/* Sockets among the program's own threads: a TCP echo server on the loopback interface with 4 clients, a
 * unix socket pair with a passed descriptor, datagrams, a listening unix socket with an abstract name. */
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CLIENTS 4
#define MESSAGES 10
#define BULK 100000L

static int listener;
static struct sockaddr_in server_address;
static long echoed;

static void send_all(int connection, const char *data, long n) {
    while (n > 0) {
        long sent = send(connection, data, n, MSG_NOSIGNAL);
        CHECK(sent > 0);
        data += sent;
        n -= sent;
    }
}

static void receive_all(int connection, char *data, long n) {
    while (n > 0) {
        long got = recv(connection, data, n, 0);
        CHECK(got > 0);
        data += got;
        n -= got;
    }
}

static void *echo(void *argument) {
    int connection = (int)(long)argument;
    char data[2048];
    long n;
    while ((n = read(connection, data, sizeof data)) > 0) {
        send_all(connection, data, n);
        __atomic_fetch_add(&echoed, n, __ATOMIC_SEQ_CST);
    }
    CHECK(n == 0 && close(connection) == 0);
    return NULL;
}

static void *serve(void *argument) {
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        int connection = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC);
        CHECK(connection >= 0 && size == sizeof peer && peer.sin_family == AF_INET);
        CHECK(peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && peer.sin_port != 0);
        threads[i] = start(echo, (void *)(long)connection);
    }
    for (int i = 0; i < CLIENTS; i++)
        join(threads[i]);
    return argument;
}

static void *talk(void *argument) {
    char sent[64], got[64];
    int yes = 1, connection = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connection >= 0);
    CHECK(connect(connection, (struct sockaddr *)&server_address, sizeof server_address) == 0);
    CHECK(setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
    for (int i = 0; i < MESSAGES; i++) {
        int n = snprintf(sent, sizeof sent, "message %d of client %ld", i, (long)argument);
        send_all(connection, sent, n);
        receive_all(connection, got, n);
        CHECK(memcmp(sent, got, n) == 0);
    }
    CHECK(shutdown(connection, SHUT_WR) == 0 && read(connection, got, 1) == 0);
    CHECK(close(connection) == 0);
    return NULL;
}

static void check_tcp(void) {
    socklen_t size = sizeof server_address;
    int yes = 1, type = 0;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server_address.sin_family = AF_INET;
    server_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(listener, (struct sockaddr *)&server_address, sizeof server_address) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&server_address, &size) == 0);
    CHECK(server_address.sin_port != 0 && listen(listener, 8) == 0);
    size = sizeof type;
    CHECK(getsockopt(listener, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM);
    pthread_t server = start(serve, NULL);
    run_threads(CLIENTS, talk);
    join(server);
    CHECK(close(listener) == 0);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_FAILS(connect(late, (struct sockaddr *)&server_address, sizeof server_address), ECONNREFUSED);
    CHECK(close(late) == 0);
}

static void *fill(void *argument) {
    static char block[BULK];
    memset(block, 'b', sizeof block);
    send_all((int)(long)argument, block, BULK);
    return NULL;
}

/* More than a socket holds, then the end; and a descriptor sent to the other side. */
static void check_pair(void) {
    static char block[BULK];
    int pair[2], pipe_ends[2];
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'd';
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipe_ends) == 0);
    pthread_t writer = start(fill, (void *)(long)pair[0]);
    receive_all(pair[1], block, BULK);
    CHECK(block[0] == 'b' && block[BULK - 1] == 'b');
    join(writer);
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &pipe_ends[0], sizeof(int));
    CHECK(sendmsg(pair[0], &message, 0) == 1 && close(pipe_ends[0]) == 0);
    memset(control, 0, sizeof control);
    CHECK(recvmsg(pair[1], &message, 0) == 1 && (header = CMSG_FIRSTHDR(&message)) != NULL);
    CHECK(header->cmsg_type == SCM_RIGHTS);
    memcpy(&pipe_ends[0], CMSG_DATA(header), sizeof(int));
    CHECK(write(pipe_ends[1], "p", 1) == 1 && read(pipe_ends[0], &byte, 1) == 1 && byte == 'p');
    CHECK(close(pair[0]) == 0 && read(pair[1], &byte, 1) == 0);
    CHECK_FAILS(send(pair[1], "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(close(pair[1]) == 0 && close(pipe_ends[0]) == 0 && close(pipe_ends[1]) == 0);
}

static void check_datagrams(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
    socklen_t size = sizeof address, from_size = sizeof from;
    struct timeval soon = {0, 5000};
    char text[32] = "";
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(receiver >= 0 && bind(receiver, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&address, &size) == 0);
    CHECK(sendto(sender, "first", 5, 0, (struct sockaddr *)&address, size) == 5);
    CHECK(sendto(sender, "second", 6, 0, (struct sockaddr *)&address, size) == 6);
    struct pollfd polled = {.fd = receiver, .events = POLLIN};
    CHECK(poll(&polled, 1, -1) == 1 && polled.revents == POLLIN);
    CHECK(recvfrom(receiver, text, 3, MSG_TRUNC, (struct sockaddr *)&from, &from_size) == 5);
    CHECK(memcmp(text, "fir", 4) == 0 && from.sin_port != 0); /* the rest of a datagram is lost */
    CHECK(recv(receiver, text, sizeof text, 0) == 6 && memcmp(text, "second", 6) == 0);
    CHECK(setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
    CHECK_FAILS(recv(receiver, text, sizeof text, 0), EAGAIN);
    CHECK_FAILS(recv(receiver, text, sizeof text, MSG_DONTWAIT), EAGAIN);
    CHECK(close(receiver) == 0 && close(sender) == 0);
}

static void *answer(void *argument) {
    int connection = accept((int)(long)argument, NULL, NULL);
    char byte;
    CHECK(connection >= 0 && read(connection, &byte, 1) == 1);
    byte++;
    CHECK(write(connection, &byte, 1) == 1 && close(connection) == 0);
    return NULL;
}

static void check_named_unix(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = offsetof(struct sockaddr_un, sun_path) +
                     sprintf(name.sun_path + 1, "corebraid-guest-%d", (int)getpid()) + 1;
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    char byte = 'y';
    CHECK_FAILS(connect(client, (struct sockaddr *)&name, size), ECONNREFUSED);
    CHECK(bind(server, (struct sockaddr *)&name, size) == 0 && listen(server, 1) == 0);
    pthread_t thread = start(answer, (void *)(long)server);
    CHECK(connect(client, (struct sockaddr *)&name, size) == 0 && write(client, &byte, 1) == 1);
    CHECK(read(client, &byte, 1) == 1 && byte == 'z');
    join(thread);
    CHECK(close(client) == 0 && close(server) == 0);
}

int main(void) {
    check_tcp();
    check_pair();
    check_datagrams();
    check_named_unix();
    printf("sockets: echoed %ld bytes, pair %ld bytes, datagrams 2, named 1\n", echoed, BULK);
    return 0;
}
