/* Static, at fixed addresses: arguments, environment, auxiliary vector. */
#include "guest.h"
#include <elf.h>
#include <stdlib.h>
#include <sys/auxv.h>

extern char **environ;

int main(int count, char **arguments) {
    const char *base = strrchr(arguments[0], '/');
    CHECK(count >= 1 && arguments[count] == NULL && environ != NULL);
    CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_PHDR) != 0 && getauxval(AT_BASE) == 0);
    CHECK(getauxval(AT_ENTRY) != 0 && getauxval(AT_SECURE) == 0 && getauxval(AT_EXECFN) != 0);
    CHECK(getauxval(AT_UID) == getuid() && getauxval(AT_EGID) == getegid());
    printf("static_hello: %s", base ? base + 1 : arguments[0]);
    for (int i = 1; i < count; i++)
        printf(" [%s]", arguments[i]);
    printf(" GREETING=%s\n", getenv("GREETING") ? getenv("GREETING") : "(none)");
    return 0;
}
