/* sockets: moves messages through a pair of sockets by each of the calls, and prints the bytes that they moved. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIZE = 1000 };
static char buffer[SIZE];
static long moved;

static int ends[2];

static void expect(ssize_t bytes)
{
    if (bytes != SIZE) {
        perror("sockets");
        _exit(1);
    }
    moved += bytes;
}

static void take(void)
{
    expect(recv(ends[1], buffer, sizeof buffer, 0));
}

int main(void)
{
    struct iovec vector = {buffer, sizeof buffer};
    struct mmsghdr messages[2] = {{{NULL, 0, &vector, 1, NULL, 0, 0}, 0}, {{NULL, 0, &vector, 1, NULL, 0, 0}, 0}};
    struct msghdr *message = &messages[0].msg_hdr;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        return 1;

    expect(send(ends[0], buffer, sizeof buffer, 0));
    if (recv(ends[1], buffer, sizeof buffer, MSG_PEEK) != SIZE || recv(ends[0], buffer, 1, MSG_DONTWAIT) != -1)
        return 1;
    take();
    expect(sendto(ends[0], buffer, sizeof buffer, 0, NULL, 0));
    expect(recvfrom(ends[1], buffer, sizeof buffer, 0, NULL, NULL));
    expect(sendmsg(ends[0], message, 0));
    expect(recvmsg(ends[1], message, 0));
    if (sendmmsg(ends[0], messages, 2, 0) != 2 || recvmmsg(ends[1], messages, 2, 0, NULL) != 2)
        return 1;
    moved += 4 * SIZE;
    /* The kernel counts these itself. */
    if (write(ends[0], buffer, sizeof buffer) != SIZE || read(ends[1], buffer, sizeof buffer) != SIZE)
        return 1;
    printf("%ld\n", moved);
    return 0;
}
