/* A user's OMPT tool. It accepts, and prints that, unless USER_TOOL_DECLINES is in the environment. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct result {
    int (*initialize)(void *lookup, int device, void *data);
    void (*finalize)(void *data);
    void *data;
};

static int initialize(void *lookup, int device, void *data)
{
    (void)lookup, (void)device, (void)data;
    puts("user's tool");
    fflush(stdout);
    return 1;
}

static void finalize(void *data)
{
    (void)data;
}

struct result *ompt_start_tool(unsigned version, const char *runtime);

struct result *ompt_start_tool(unsigned version, const char *runtime)
{
    static struct result tool = {initialize, finalize, NULL};
    (void)version, (void)runtime;
    return getenv("USER_TOOL_DECLINES") ? NULL : &tool;
}
