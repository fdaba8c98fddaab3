/*
 * The parts of ceiling.c below its server and client: clocks, the latency histogram, a connection that is plain or TLS,
 * and the writer that gathers messages for one system call. Included by ceiling.c only.
 */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#ifdef WITH_SSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

enum {
    HEADER = 16,
    PACK_MAX = 1024,          /* payloads up to here are copied behind their header */
    READ_SIZE = 256 * 1024,   /* smallest receive buffer */
    SCRATCH = 256 * 1024,     /* headers and packed payloads of one write */
    RECORD = 16 * 1024,       /* TLS: most bytes of a record */
    JOIN = 256 * 1024,        /* TLS: short parts are joined in a buffer of this size, and so are the records */
    PARTS = 1024,             /* IOV_MAX */
    BUCKETS = 64 * 32,
    REQUEST = 1,
    REPLY = 5,
};

static _Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "ceiling: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    exit(1);
}

static void check(bool ok, const char *what)
{
    if (!ok)
        die("%s: %s", what, strerror(errno));
}

static void *allocate(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    check(memory != NULL, "calloc");
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- histogram ---- */

static unsigned bucket(uint64_t ns)
{
    if (ns < 64)
        return (unsigned)ns;
    unsigned shift = 58u - (unsigned)__builtin_clzll(ns); /* leaves six significant bits */
    return (shift << 5) + (unsigned)(ns >> shift);
}

static double quantile_us(const uint64_t *counts, double q)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        total += counts[i];
    double rank = q * (double)total, below = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        if (counts[i] && below + (double)counts[i] >= rank) {
            unsigned shift = i < 64 ? 0 : (i >> 5) - 1;
            double low = (double)((uint64_t)(i - (shift << 5)) << shift), width = (double)(1ull << shift);
            return (low + width * (rank - below) / (double)counts[i]) / 1e3; /* even within a bucket */
        }
        below += (double)counts[i];
    }
    return 0;
}

/* ---- a connection, plain or TLS ---- */

struct channel {
    int fd;
#ifdef WITH_SSL
    SSL *ssl;
    BIO *out; /* joins records, which OpenSSL would write one by one */
#endif
};

#ifdef WITH_SSL
static SSL_CTX *ssl_context(const char *cert, const char *key)
{
    SSL_CTX *context = SSL_CTX_new(cert ? TLS_server_method() : TLS_client_method());
    if (!context)
        die("cannot make a TLS context");
    if (cert && (SSL_CTX_use_certificate_chain_file(context, cert) != 1 ||
                 SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1))
        die("cannot load %s and %s", cert, key);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1); /* one system call may read many records */
    SSL_CTX_set_default_read_buffer_len(context, READ_SIZE);
    return context;
}

static void ssl_start(struct channel *c, SSL_CTX *context, bool server)
{
    c->ssl = SSL_new(context);
    BIO *socket = BIO_new_socket(c->fd, BIO_NOCLOSE);
    BIO_up_ref(socket); /* for reading and for writing */
    c->out = BIO_new(BIO_f_buffer());
    BIO_set_write_buffer_size(c->out, JOIN + JOIN / 8);
    SSL_set_bio(c->ssl, socket, BIO_push(c->out, socket));
    if ((server ? SSL_accept(c->ssl) : SSL_connect(c->ssl)) != 1)
        die("TLS handshake failed");
}

static ssize_t ssl_result(struct channel *c, int n)
{
    if (n > 0)
        return n;
    int error = SSL_get_error(c->ssl, n);
    ERR_clear_error(); /* or the next connection's SSL_get_error would see it */
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? -1 : 0;
}
#endif

static bool is_tls(const struct channel *c)
{
#ifdef WITH_SSL
    return c->ssl != NULL;
#else
    return (void)c, false;
#endif
}

/* Returns bytes, 0 at the end of the stream, -1 if it would block. */
static ssize_t channel_read(struct channel *c, void *to, size_t size)
{
#ifdef WITH_SSL
    if (c->ssl)
        return ssl_result(c, SSL_read(c->ssl, to, size > INT32_MAX ? INT32_MAX : (int)size));
#endif
    ssize_t n = recv(c->fd, to, size, 0);
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? -1 : 0;
}

/* The same for writing; may take less than it is given. */
static ssize_t channel_write(struct channel *c, struct iovec *parts, int count)
{
#ifdef WITH_SSL
    if (c->ssl) {
        static char join[JOIN];
        if (parts[0].iov_len >= RECORD) /* long enough to make whole records of it where it lies */
            return ssl_result(c, SSL_write(c->ssl, parts[0].iov_base,
                                           parts[0].iov_len < JOIN ? (int)parts[0].iov_len : JOIN));
        size_t used = 0;
        bool more = true;
        for (int i = 0; i < count && used < JOIN && more; i++) {
            more = parts[i].iov_len < RECORD; /* of a long part only what fills the record */
            size_t room = more ? JOIN - used : RECORD - used % RECORD;
            size_t n = parts[i].iov_len < room ? parts[i].iov_len : room;
            memcpy(join + used, parts[i].iov_base, n);
            used += n;
        }
        return ssl_result(c, SSL_write(c->ssl, join, (int)used));
    }
#endif
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? -1 : 0;
}

/* Returns 1 when nothing is held back by TLS, -1 if it would block, 0 if the peer is gone. */
static int channel_flush(struct channel *c)
{
#ifdef WITH_SSL
    if (c->ssl && BIO_flush(c->out) <= 0)
        return BIO_should_retry(c->out) ? -1 : 0;
#endif
    (void)c;
    return 1;
}

/* ---- messages queued for one write ---- */

struct writer {
    struct iovec parts[PARTS];
    int count, done; /* parts queued, parts written */
    bool borrowed;   /* some part lies outside of scratch */
    size_t used;
    char scratch[SCRATCH];
};

static bool writer_full(const struct writer *w)
{
    return w->count + 2 > PARTS || w->used + HEADER + PACK_MAX > SCRATCH;
}

static void writer_add(struct writer *w, int type, uint64_t id, const void *payload, size_t size)
{
    char *header = w->scratch + w->used;
    uint64_t words[2] = {htole64((uint64_t)size | (uint64_t)type << 32), htole64(id)};
    memcpy(header, words, HEADER);
    size_t length = HEADER;
    if (size <= PACK_MAX) {
        memcpy(header + HEADER, payload, size);
        length += size;
    }
    struct iovec *last = w->count ? &w->parts[w->count - 1] : NULL;
    if (last && (char *)last->iov_base + last->iov_len == header)
        last->iov_len += length;
    else
        w->parts[w->count++] = (struct iovec){header, length};
    w->used += length;
    if (size > PACK_MAX) {
        w->parts[w->count++] = (struct iovec){(void *)(uintptr_t)payload, size};
        w->borrowed = true;
    }
}

static void writer_advance(struct writer *w, size_t n)
{
    while (n > 0) {
        struct iovec *part = &w->parts[w->done];
        size_t taken = n < part->iov_len ? n : part->iov_len;
        part->iov_base = (char *)part->iov_base + taken;
        part->iov_len -= taken;
        n -= taken;
        if (part->iov_len == 0)
            w->done++;
    }
}

/* Writes what the socket takes. Returns 1 when all is written, -1 if it would block, 0 if the peer is gone. */
static int writer_flush(struct writer *w, struct channel *c)
{
    while (w->done < w->count) {
        ssize_t n = channel_write(c, w->parts + w->done, w->count - w->done);
        if (n <= 0)
            return (int)n;
        writer_advance(w, (size_t)n);
    }
    return channel_flush(c);
}

static void writer_reset(struct writer *w)
{
    w->count = w->done = 0;
    w->used = 0;
    w->borrowed = false;
}
