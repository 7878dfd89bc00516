/*
 * Counts the bytes that a program receives and sends with the calls of sockets.
 *
 * The kernel counts what a task reads and writes (`rchar` and `wchar` in /proc/PID/io), in sockets as well as in files.
 * But recv(), send() and their relatives do not pass through the kernel's read and write, so it does not count these.
 * pinfold adds the two (crates/linux/src/launch/counting.rs).
 *
 * The functions pass their arguments on, and add the bytes after a call that succeeded. They do not touch errno. A look
 * at data that stays in the socket (MSG_PEEK) does not count.
 *
 * Known limits: static programs, calls that bypass the C library, and io_uring.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "pinfold.h"

#include <dlfcn.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* The thread's slot. Unlike pinfold_own_slot() this attaches no source: zero bytes are no bytes. */
static struct pinfold_slot *own_slot(void)
{
    static __thread struct pinfold_slot *slot;
    static __thread char asked;
    if (!asked) {
        struct pinfold_channel *channel = pinfold_mapped();
        if (channel != NULL)
            slot = pinfold_new_slot(channel);
        asked = 1;
    }
    return slot;
}

static ssize_t counted(ssize_t bytes)
{
    if (bytes > 0) {
        struct pinfold_slot *slot = own_slot();
        if (slot != NULL)
            __atomic_fetch_add(&slot->socket_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    }
    return bytes;
}

static ssize_t counted_unless_peeked(ssize_t bytes, int flags)
{
    return flags & MSG_PEEK ? bytes : counted(bytes);
}

/* Counts the bytes of `number` messages. */
static int counted_messages(const struct mmsghdr *messages, int number, int flags)
{
    for (int i = 0; i < number; i++)
        (void)counted_unless_peeked((ssize_t)messages[i].msg_len, flags);
    return number;
}

/* The next library's function of this name. A constructor of another library may call one before ours has run. */
#define NEXT(name)                                                                                                     \
    static __typeof__(name) *next;                                                                                     \
    if (__atomic_load_n(&next, __ATOMIC_RELAXED) == NULL)                                                              \
    __atomic_store_n(&next, (__typeof__(name) *)dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

EXPORT ssize_t recv(int socket, void *buffer, size_t size, int flags)
{
    NEXT(recv);
    return counted_unless_peeked(next(socket, buffer, size, flags), flags);
}

EXPORT ssize_t recvfrom(int socket, void *buffer, size_t size, int flags, __SOCKADDR_ARG from, socklen_t *length)
{
    NEXT(recvfrom);
    return counted_unless_peeked(next(socket, buffer, size, flags, from, length), flags);
}

EXPORT ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
    NEXT(recvmsg);
    return counted_unless_peeked(next(socket, message, flags), flags);
}

EXPORT int recvmmsg(int socket, struct mmsghdr *messages, unsigned number, int flags, struct timespec *timeout)
{
    NEXT(recvmmsg);
    return counted_messages(messages, next(socket, messages, number, flags, timeout), flags);
}

EXPORT ssize_t send(int socket, const void *buffer, size_t size, int flags)
{
    NEXT(send);
    return counted(next(socket, buffer, size, flags));
}

EXPORT ssize_t sendto(int socket, const void *buffer, size_t size, int flags, __CONST_SOCKADDR_ARG to, socklen_t length)
{
    NEXT(sendto);
    return counted(next(socket, buffer, size, flags, to, length));
}

EXPORT ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    NEXT(sendmsg);
    return counted(next(socket, message, flags));
}

EXPORT int sendmmsg(int socket, struct mmsghdr *messages, unsigned number, int flags)
{
    NEXT(sendmmsg);
    return counted_messages(messages, next(socket, messages, number, flags), 0);
}

/* The C library's functions for programs that are compiled with _FORTIFY_SOURCE. */
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, __SOCKADDR_ARG, socklen_t *);

EXPORT ssize_t __recv_chk(int socket, void *buffer, size_t size, size_t room, int flags)
{
    NEXT(__recv_chk);
    return counted_unless_peeked(next(socket, buffer, size, room, flags), flags);
}

EXPORT ssize_t __recvfrom_chk(int socket, void *buffer, size_t size, size_t room, int flags, __SOCKADDR_ARG from,
                              socklen_t *length)
{
    NEXT(__recvfrom_chk);
    return counted_unless_peeked(next(socket, buffer, size, room, flags, from, length), flags);
}
