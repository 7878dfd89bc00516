/*
 * Selects the first versions of functions that glibc has moved, so that a glibc older than the build's loads the agent.
 *
 * Until glibc 2.33 these functions are in libdl.so.2. Since 2.34 they are in libc.so.6 under that release's versions,
 * and under the first versions for programs that were linked earlier. The agent requires the first versions, and
 * libdl.so.2 (see the Makefile). tests/test_single_file.py checks the glibc version that the agent needs.
 */
#ifndef PINFOLD_GLIBC_H
#define PINFOLD_GLIBC_H

#include <features.h>

#if defined __GLIBC__ && defined __x86_64__
#define PINFOLD_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined __GLIBC__ && defined __aarch64__
#define PINFOLD_FIRST_GLIBC "GLIBC_2.17"
#endif

#ifdef PINFOLD_FIRST_GLIBC
#define PINFOLD_FIRST(name) __asm__(".symver " #name ", " #name "@" PINFOLD_FIRST_GLIBC)
PINFOLD_FIRST(dladdr);
PINFOLD_FIRST(dlclose);
PINFOLD_FIRST(dlerror);
PINFOLD_FIRST(dlopen);
PINFOLD_FIRST(dlsym);
#endif

#endif
