/*
 * Names the first versions of what glibc has moved, so that a glibc older than the one of the build loads the agent.
 *
 * Until glibc 2.33 these functions are in libdl.so.2. Since 2.34 they are in libc.so.6, with versions of that release, and
 * the first versions are there for programs that were linked before. The agent asks for these, and for libdl.so.2 (see the
 * Makefile). tests/test_single_file.py reads from the agent which glibc it needs.
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
