/* execve of a program that does not exist, then of itself with an argument. Under the recorder the second is
 * refused, clearly: it would be another process image. */
#include "guest.h"

int main(int count, char **arguments) {
    if (count > 1) {
        printf("exec_try: %s\n", arguments[1]);
        return 0;
    }
    char *again[] = {arguments[0], "after", NULL}, *none[] = {NULL};
    printf("exec_try: before\n");
    fflush(stdout);
    CHECK_FAILS(execve("/no/such/program", again, none), ENOENT);
    execve("/proc/self/exe", again, none);
    printf("exec_try: %s\n", strerrorname_np(errno));
    return 3;
}
