/*
 * Restores the environment that the program's user has chosen.
 *
 * The dynamic linker finds the agent through LD_PRELOAD. The program, and each program that it starts with its
 * environment, would see the agent there. So pinfold adds a second variable, PINFOLD_PRELOADED, with the user's entry
 * ("LD_PRELOAD=...", or nothing without an entry). Before main() the agent restores that entry and removes the second
 * variable. pinfold adds both at each exec (crates/linux/src/launch/preload.rs).
 *
 * Known limit: constructors of libraries that run before the agent's see both variables.
 */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD="
#define PRELOADED "PINFOLD_PRELOADED="

extern char **environ;

/* The rest of an entry that starts with `name`. NULL for another entry. */
static char *value_of(char *entry, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 ? entry + length : NULL;
}

__attribute__((constructor)) static void restore_environment(void)
{
    char *users = NULL;
    for (char **entry = environ; entry != NULL && *entry != NULL && users == NULL; entry++)
        users = value_of(*entry, PRELOADED);
    if (users == NULL)
        return;
    char **kept = environ;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (value_of(*entry, PRELOADED) != NULL)
            continue;
        if (value_of(*entry, PRELOAD) == NULL)
            *kept++ = *entry;
        else if (*users != '\0')
            *kept++ = users;
    }
    *kept = NULL;
}
