/*
 * copying: what `rep movsb` makes of the distance between destination and source, in GB/s.
 *
 * Linux copies to and from sockets by this instruction where the processor says that it is fast for short strings (fsrm).
 * Why it matters here: COPY_ALIGNMENT in rpcproto/wire/_tuning.py. x86-64 only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 28 * 1024, PAGE = 4096, ROUNDS = 7, COPIES = 2000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void copy(char *to, const char *from, size_t size)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

int main(void)
{
    static const int distances[] = {0, 1, 4, 8, 12, 15, 16, 24, 32, 48, 64, 128, 2048, 4032, 4080, 4095};
    char *from = aligned_alloc(PAGE, SIZE + PAGE), *to = aligned_alloc(PAGE, SIZE + 2 * PAGE);
    if (!from || !to)
        return 1;
    memset(from, 1, SIZE + PAGE);
    memset(to, 2, SIZE + 2 * PAGE);
    puts("destination - source, modulo 4096   GB/s (best of 7 rounds)");
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        double best = 1e9;
        for (int round = 0; round < ROUNDS; round++) {
            double start = now();
            for (int n = 0; n < COPIES; n++)
                copy(to + distances[i], from, SIZE);
            double took = (now() - start) / COPIES;
            best = took < best ? took : best;
        }
        printf("%33d   %5.1f\n", distances[i], SIZE / best / 1e9);
    }
    return 0;
}
