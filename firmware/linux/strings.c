/* The C library's string functions (SSE2 and better) against plain loops, on buffers of all small lengths at
 * all alignments, up to the last byte before a page that may not be touched. */
#define _GNU_SOURCE
#include "guest.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <wchar.h>

#define PAGE 4096
#define LONGEST 80

static unsigned char *end; /* the first byte of the page that may not be touched */
static unsigned long seed = 88172645463325252UL;
static long comparisons;

static long naive_length(const char *text) {
    long n = 0;
    while (((const volatile char *)text)[n])
        n++;
    return n;
}

static const char *naive_find(const char *text, char wanted) {
    for (;; text++) {
        if (*(const volatile char *)text == wanted)
            return text;
        if (!*(const volatile char *)text)
            return NULL;
    }
}

static int naive_compare(const unsigned char *left, const unsigned char *right, long n) {
    for (long i = 0; i < n; i++)
        if (((const volatile unsigned char *)left)[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static int sign(int value) {
    return (value > 0) - (value < 0);
}

/* A random string of n letters of a small alphabet, whose 0 byte is the last byte before the forbidden page. */
static char *random_string(long n) {
    char *text = (char *)end - n - 1;
    for (long i = 0; i < n; i++)
        text[i] = "abcd"[next_random(&seed) % 4];
    text[n] = 0;
    return text;
}

static void check_strings(long n) {
    char copy[LONGEST + 2], other[LONGEST + 2];
    char *text = random_string(n);
    CHECK((long)strlen(text) == naive_length(text) && (long)strnlen(text, n / 2) == n / 2);
    for (const char *letter = "adx"; *letter; letter++) {
        CHECK(strchr(text, *letter) == naive_find(text, *letter));
        CHECK(memchr(text, *letter, n) == naive_find(text, *letter));
    }
    CHECK(strchr(text, 0) == text + n && rawmemchr(text, 0) == text + n && strrchr(text, 0) == text + n);
    CHECK(strcmp(strcpy(copy, text), text) == 0 && stpcpy(other, text) == other + n);
    if (n > 0) {
        long place = next_random(&seed) % n;
        other[place]++;
        CHECK(sign(strcmp(text, other)) == naive_compare((void *)text, (void *)other, n + 1));
        CHECK(sign(memcmp(other, text, n)) == -naive_compare((void *)text, (void *)other, n));
        CHECK(strncmp(text, other, place) == 0 && strcasecmp(text, copy) == 0);
        other[place + 1] = 0;
        copy[n] = 0;
        CHECK(strstr(text, copy + n / 2) != NULL && strspn(text, "abcd") == (size_t)n);
    }
    CHECK(strcspn(text, "xyz") == (size_t)n && strpbrk(text, "xyz") == NULL);
    comparisons += 12;
}

static void check_blocks(long n, long alignment) {
    unsigned char source[2 * LONGEST], target[2 * LONGEST];
    for (long i = 0; i < 2 * LONGEST; i++) {
        source[i] = next_random(&seed);
        target[i] = 0xee;
    }
    memcpy(target + alignment, source + 3, n);
    CHECK(naive_compare(target + alignment, source + 3, n) == 0);
    CHECK(target[alignment + n] == 0xee && (alignment == 0 || target[alignment - 1] == 0xee));
    unsigned char expected[2 * LONGEST];
    for (long i = 0; i < 2 * LONGEST; i++)
        expected[i] = ((volatile unsigned char *)source)[i];
    for (long i = n; i-- > 0;)
        ((volatile unsigned char *)expected)[alignment + 5 + i] = source[alignment + i];
    memmove(source + alignment + 5, source + alignment, n); /* the two overlap */
    CHECK(naive_compare(source, expected, 2 * LONGEST) == 0);
    memset(target + alignment, 0x5a, n);
    for (long i = 0; i < n; i++)
        CHECK(((volatile unsigned char *)target)[alignment + i] == 0x5a);
    CHECK(target[alignment + n] == 0xee);
    comparisons += 4;
}

static void check_large(void) {
    static unsigned char large[40000], copy[40000];
    for (long i = 0; i < 40000; i++)
        large[i] = i % 253;
    memcpy(copy, large, sizeof copy);
    CHECK(memcmp(copy, large, sizeof copy) == 0 && memmem(large, 40000, "\xfa\xfb\xfc", 3) == large + 250);
    copy[39999]++;
    CHECK(memcmp(copy, large, sizeof copy) > 0 && memrchr(large, 252, 40000) == large + 39973);
    wchar_t wide[50] = L"wide characters";
    CHECK(wcslen(wide) == 15 && wcschr(wide, L'c') == wide + 5 && wmemcmp(wide, L"wide", 4) == 0);
    comparisons += 7;
}

int main(void) {
    unsigned char *area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area + PAGE, PAGE, PROT_NONE) == 0);
    end = area + PAGE;
    for (long n = 0; n <= LONGEST; n++)
        check_strings(n);
    for (long n = 0; n <= 68; n++)
        for (long alignment = 0; alignment < 4; alignment++)
            check_blocks(n, alignment * 5 % 16);
    check_large();
    printf("strings: %ld comparisons\n", comparisons);
    return 0;
}
