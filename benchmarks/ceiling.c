/*
 * ceiling: what C does on the same sockets, as the measure for the Python library.
 *
 * One single-threaded epoll server and P blocking client processes on one machine. A message is a 16-byte header
 * (the protocol's own layout) and a payload. Each client keeps a window of C requests under way on its one connection:
 * it writes as many requests as the window allows in one system call, then reads whatever replies are there. The server
 * answers each read's requests with one system call. Replies are small, or the payload itself (--echo).
 *
 * Payloads up to 1 KiB are packed behind their header, larger ones are sent from where they lie. Requests are
 * received whole into contiguous memory, as a library has to. Over TLS the parts are joined in a 256 KiB buffer first.
 *
 * Latency is the time from before a request is written until after its reply is read, in a histogram with 32 buckets
 * for each power of two (the same as rpcproto/bench/histogram.py). The result is one JSON object on the standard output.
 *
 *   cc -O2 -o ceiling ceiling.c                               plain (ceiling.py does this)
 *   cc -O2 -DWITH_SSL -o ceiling ceiling.c -lssl -lcrypto     with --cert and --key for TLS
 */
#define _GNU_SOURCE
#include "ceiling_io.h"

#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_PROCS = 256,
    TURNS = 64, /* reads of one connection, which over TLS bring a record each, before the next one's turn */
};

static struct {
    int procs, window, server_cpu, client_cpu;
    size_t bytes, reply_bytes;
    double seconds, warmup;
    bool echo;
    const char *unix_path, *cert, *key;
} opt = {1, 64, -1, -1, 10, 10, 2.0, 0.3, false, NULL, NULL, NULL};

struct figures {              /* what one process measured between the start and the end of the measured span */
    uint64_t calls, first_ns, last_ns;
    double cpu_s;
    uint64_t histogram[BUCKETS];
};

static struct shared {        /* between all processes */
    atomic_int ready;         /* clients whose first replies were right */
    _Atomic uint64_t start_ns, end_ns; /* measured span; 0 until all clients are ready */
    struct figures server, client[MAX_PROCS];
} *shared;

/* ---- server ---- */

struct connection {
    struct channel channel;
    char *in, *pending; /* received; and what the socket would not take */
    size_t have, capacity, pending_from, pending_to, pending_capacity;
    bool blocked; /* the socket is full: wait for EPOLLOUT */
    bool more;    /* TLS may hold requests that epoll does not know of */
};

static struct writer writer; /* one a process; empty between events */
static char *small_reply;

static void watch(int poll, struct connection *c, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    check(epoll_ctl(poll, operation, c->channel.fd, &event) == 0, "epoll_ctl");
}

/* Sends what is queued. What the socket does not take is kept, and the connection still read: the client may be
 * writing its next requests before it reads, so to stop here could stop both. Returns false if the peer is gone. */
static bool server_flush(int poll, struct connection *c)
{
    if (writer.count == 0)
        return true;
    int state = c->blocked ? -1 : writer_flush(&writer, &c->channel);
    if (state < 0) {
        if (!c->blocked)
            watch(poll, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
        c->blocked = true;
        for (int i = writer.done; i < writer.count; i++) {
            size_t size = writer.parts[i].iov_len;
            if (c->pending_to + size > c->pending_capacity) {
                c->pending_capacity = 2 * (c->pending_to + size);
                c->pending = realloc(c->pending, c->pending_capacity);
                check(c->pending != NULL, "realloc");
            }
            memcpy(c->pending + c->pending_to, writer.parts[i].iov_base, size);
            c->pending_to += size;
        }
    }
    writer_reset(&writer);
    return state != 0;
}

static bool server_writable(int poll, struct connection *c)
{
    while (c->pending_from < c->pending_to) {
        struct iovec rest = {c->pending + c->pending_from, c->pending_to - c->pending_from};
        ssize_t n = channel_write(&c->channel, &rest, 1);
        if (n <= 0)
            return n < 0;
        c->pending_from += (size_t)n;
    }
    c->pending_from = c->pending_to = 0;
    int state = channel_flush(&c->channel);
    if (state <= 0)
        return state < 0;
    c->blocked = false;
    watch(poll, c, EPOLL_CTL_MOD, EPOLLIN);
    return true;
}

static bool server_readable(int poll, struct connection *c)
{
    c->more = false;
    for (int turn = 0; turn == 0 || is_tls(&c->channel); turn++) { /* a plain socket makes epoll report again */
        if (turn == TURNS) { /* the others' turn; EPOLLOUT comes at once, or when the replies are through */
            watch(poll, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            c->more = true;
            break;
        }
        ssize_t n = channel_read(&c->channel, c->in + c->have, c->capacity - c->have);
        if (n <= 0) {
            if (n == 0)
                return false;
            break;
        }
        c->have += (size_t)n;
        size_t at = 0;
        while (c->have - at >= HEADER) {
            uint64_t words[2];
            memcpy(words, c->in + at, HEADER);
            size_t size = (uint32_t)le64toh(words[0]);
            if (size != opt.bytes)
                die("a request of %zu bytes, not %zu", size, opt.bytes);
            if (c->have - at < HEADER + size)
                break;
            if (writer_full(&writer) && !server_flush(poll, c))
                return false;
            if (opt.echo)
                writer_add(&writer, REPLY, le64toh(words[1]), c->in + at + HEADER, size);
            else
                writer_add(&writer, REPLY, le64toh(words[1]), small_reply, opt.reply_bytes);
            at += HEADER + size;
        }
        if (writer.borrowed && opt.echo && !server_flush(poll, c)) /* its parts lie in c->in */
            return false;
        c->have -= at;
        memmove(c->in, c->in + at, c->have);
    }
    return server_flush(poll, c);
}

/* Called after each wait. A process that was waiting when the span began used no time until now, so what it counts from
 * here on belongs to the span from its beginning. */
static void mark(struct figures *f, double *cpu_at_start)
{
    uint64_t now = now_ns(), start = shared->start_ns, end = shared->end_ns;
    if (start && now >= start && !f->first_ns) {
        f->first_ns = start;
        *cpu_at_start = cpu_seconds();
    } else if (end && now >= end && f->first_ns && !f->last_ns) {
        f->last_ns = now;
        f->cpu_s = cpu_seconds() - *cpu_at_start;
    }
}

static bool server_accept(int poll, int listener, void *tls)
{
    struct connection *c = allocate(sizeof *c);
    c->channel.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    check(c->channel.fd >= 0, "accept");
    if (!opt.unix_path)
        setsockopt(c->channel.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
#ifdef WITH_SSL
    if (tls)
        ssl_start(&c->channel, tls, true); /* blocking: before the measured span */
#endif
    (void)tls;
    check(fcntl(c->channel.fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    c->capacity = HEADER + opt.bytes > READ_SIZE ? HEADER + opt.bytes : READ_SIZE;
    c->in = allocate(c->capacity);
    watch(poll, c, EPOLL_CTL_ADD, EPOLLIN);
    return !tls || server_readable(poll, c); /* requests may have been read along with the handshake */
}

static void serve(int listener)
{
    int poll = epoll_create1(EPOLL_CLOEXEC), open = 0, accepted = 0;
    struct epoll_event events[64];
    double cpu_at_start = 0;
    void *tls = NULL;
#ifdef WITH_SSL
    if (opt.cert)
        tls = ssl_context(opt.cert, opt.key);
#endif
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = NULL};
    check(epoll_ctl(poll, EPOLL_CTL_ADD, listener, &listening) == 0, "epoll_ctl");
    while (accepted < opt.procs || open > 0) {
        int n = epoll_wait(poll, events, 64, -1);
        mark(&shared->server, &cpu_at_start);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                if (!server_accept(poll, listener, tls))
                    die("a client is gone");
                accepted++, open++;
                continue;
            }
            bool alive = true;
            if (events[i].events & EPOLLOUT)
                alive = server_writable(poll, c);
            if (alive && (c->more || events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                alive = server_readable(poll, c);
            if (!alive) {
                writer_reset(&writer);
                close(c->channel.fd); /* its memory goes with the process */
                open--;
            }
        }
    }
}

/* ---- client ---- */

static void client_flush(struct channel *c)
{
    if (writer_flush(&writer, c) != 1)
        die("the server is gone");
    writer_reset(&writer);
}

static void client(int number, const struct sockaddr *address, socklen_t length)
{
    struct channel c = {.fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    check(c.fd >= 0 && connect(c.fd, address, length) == 0, "connect");
    if (!opt.unix_path)
        setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
#ifdef WITH_SSL
    if (opt.cert)
        ssl_start(&c, ssl_context(NULL, NULL), false);
#endif
    size_t expected = opt.echo ? opt.bytes : opt.reply_bytes, have = 0;
    size_t capacity = HEADER + expected > READ_SIZE ? HEADER + expected : READ_SIZE;
    char *in = allocate(capacity), *payload = allocate(opt.bytes);
    for (size_t i = 0; i < opt.bytes; i++)
        payload[i] = (char)(i * 7 + (size_t)number);
    const char *right = opt.echo ? payload : small_reply;
    uint64_t *sent_at = allocate((size_t)opt.window * sizeof *sent_at);
    uint64_t sent = 0, answered = 0, calls_at_start = 0;
    struct figures *f = &shared->client[number];
    double cpu_at_start = 0;
    bool ready = false;

    while (!f->last_ns) {
        uint64_t before = now_ns();
        while (sent - answered < (uint64_t)opt.window) {
            if (writer_full(&writer))
                client_flush(&c);
            sent_at[sent % (uint64_t)opt.window] = before;
            writer_add(&writer, REQUEST, sent++, payload, opt.bytes);
        }
        client_flush(&c);
        ssize_t n = channel_read(&c, in + have, capacity - have);
        if (n <= 0)
            die("the server is gone");
        have += (size_t)n;
        uint64_t after = now_ns();
        size_t at = 0;
        while (have - at >= HEADER) {
            uint64_t words[2];
            memcpy(words, in + at, HEADER);
            size_t size = (uint32_t)le64toh(words[0]);
            if (size != expected || le64toh(words[1]) != answered)
                die("a wrong reply: %zu bytes to call %llu", size, (unsigned long long)le64toh(words[1]));
            if (have - at < HEADER + size)
                break;
            if (!ready && memcmp(in + at + HEADER, right, size) != 0)
                die("a wrong reply: other bytes");
            if (f->first_ns)
                f->histogram[bucket(after - sent_at[answered % (uint64_t)opt.window])]++;
            answered++;
            at += HEADER + size;
        }
        have -= at;
        memmove(in, in + at, have);
        if (!ready && answered >= (uint64_t)opt.window) {
            ready = true; /* the first window was checked byte by byte; wait for the others, then run freely */
            atomic_fetch_add(&shared->ready, 1);
            while (!shared->end_ns)
                usleep(500);
        }
        bool measuring = f->first_ns != 0;
        mark(f, &cpu_at_start);
        if (!measuring && f->first_ns)
            calls_at_start = answered;
    }
    f->calls = answered - calls_at_start;
}

/* ---- the whole ---- */

static void child_starts(int cpu, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no orphans */
    if (getppid() != parent)
        exit(1); /* it ended before that call */
    signal(SIGPIPE, SIG_IGN);
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        check(sched_setaffinity(0, sizeof set, &set) == 0, "pinning");
    }
    small_reply = allocate(opt.reply_bytes);
    memset(small_reply, 'r', opt.reply_bytes);
}

static void print_result(void)
{
    static uint64_t all[BUCKETS];
    uint64_t calls = 0;
    double rps = 0, client_cores = 0, seconds = 0; /* each process has its own span: add rates, not sums */
    for (int i = 0; i < opt.procs; i++) {
        struct figures *f = &shared->client[i];
        double span = (double)(f->last_ns - f->first_ns) / 1e9;
        calls += f->calls;
        rps += (double)f->calls / span;
        client_cores += f->cpu_s / span;
        seconds += span / opt.procs;
        for (int b = 0; b < BUCKETS; b++)
            all[b] += f->histogram[b];
    }
    double server_cores = shared->server.cpu_s / ((double)(shared->server.last_ns - shared->server.first_ns) / 1e9);
    printf("{\"calls\": %llu, \"seconds\": %.6f, \"rps\": %.3f, \"mb_per_s\": %.3f, ", (unsigned long long)calls,
           seconds, rps, rps * (double)opt.bytes / 1e6);
    printf("\"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, ", quantile_us(all, 0.5), quantile_us(all, 0.99),
           quantile_us(all, 0.999));
    printf("\"server_cpu_s\": %.6f, \"client_cpu_s\": %.6f, ", server_cores * seconds, client_cores * seconds);
    printf("\"cpu_us_per_call\": %.4f, \"server_cpu_us_per_call\": %.4f, \"client_cpu_us_per_call\": %.4f}\n",
           1e6 * (server_cores + client_cores) / rps, 1e6 * server_cores / rps, 1e6 * client_cores / rps);
}

static void parse_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"procs", 1, 0, 'p'}, {"window", 1, 0, 'c'}, {"bytes", 1, 0, 'b'}, {"seconds", 1, 0, 's'},
        {"warmup", 1, 0, 'w'}, {"echo", 0, 0, 'e'}, {"reply-bytes", 1, 0, 'r'}, {"unix", 1, 0, 'u'},
        {"pin", 1, 0, 'P'}, {"cert", 1, 0, 'C'}, {"key", 1, 0, 'K'}, {0, 0, 0, 0}};
    opterr = 0; /* the usage line says it all */
    for (int c; (c = getopt_long(argc, argv, "p:c:b:s:w:er:u:", names, NULL)) != -1;) {
        switch (c) {
        case 'p': opt.procs = atoi(optarg); break;
        case 'c': opt.window = atoi(optarg); break;
        case 'b': opt.bytes = (size_t)atof(optarg); break;
        case 's': opt.seconds = atof(optarg); break;
        case 'w': opt.warmup = atof(optarg); break;
        case 'e': opt.echo = true; break;
        case 'r': opt.reply_bytes = (size_t)atof(optarg); break;
        case 'u': opt.unix_path = optarg; break;
        case 'C': opt.cert = optarg; break;
        case 'K': opt.key = optarg; break;
        case 'P':
            if (sscanf(optarg, "%d,%d", &opt.server_cpu, &opt.client_cpu) == 2)
                break;
            /* fall through */
        default:
            die("usage: ceiling [-p PROCS] [-c WINDOW] [-b BYTES] [-s SECONDS] [--warmup SECONDS] [--echo]"
                " [--reply-bytes N] [--unix PATH] [--pin SERVER,CLIENTS] [--cert FILE --key FILE]");
        }
    }
    if (opt.procs < 1 || opt.procs > MAX_PROCS || opt.window < 1 || opt.bytes > UINT32_MAX || opt.seconds <= 0)
        die("procs must be 1 to %d, the window at least 1, bytes below 4 GiB, seconds above 0", MAX_PROCS);
#ifndef WITH_SSL
    if (opt.cert)
        die("built without OpenSSL");
#endif
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED, "mmap");

    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    } address = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address.in;
    if (opt.unix_path) {
        address.un = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (strlen(opt.unix_path) >= sizeof address.un.sun_path)
            die("the path is too long: %s", opt.unix_path);
        strcpy(address.un.sun_path, opt.unix_path);
        length = sizeof address.un;
    }
    int listener = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(listener >= 0 && bind(listener, &address.any, length) == 0 && listen(listener, MAX_PROCS) == 0, "listen");
    check(getsockname(listener, &address.any, &length) == 0, "getsockname");

    pid_t parent = getpid(), server = fork();
    check(server >= 0, "fork");
    if (server == 0) {
        child_starts(opt.server_cpu, parent);
        serve(listener);
        exit(0);
    }
    for (int i = 0; i < opt.procs; i++) {
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0) {
            child_starts(opt.client_cpu, parent);
            client(i, &address.any, length);
            exit(0);
        }
    }
    int status = 0, left = opt.procs + 1;
    while (left > 0) {
        if (!shared->end_ns && shared->ready == opt.procs) {
            uint64_t start = now_ns() + (uint64_t)(1e9 * opt.warmup);
            shared->start_ns = start;
            shared->end_ns = start + (uint64_t)(1e9 * opt.seconds);
        }
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            if (status != 0)
                die("a process failed (status %d)", status); /* the others go with this one */
            left--;
        } else
            usleep(2000);
    }
    if (opt.unix_path)
        unlink(opt.unix_path);
    print_result();
    return 0;
}
