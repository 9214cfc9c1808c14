// Libraries that a program loads at the first call of one of their functions, because few of its
// runs need them (docs/decisions/0013-libraries-on-first-use.md). Any thread.
#ifndef MUSTER_BASE_OS_LIBRARY_H
#define MUSTER_BASE_OS_LIBRARY_H

// Returns the handle of the library for dlsym(3). `file`: its name for the dynamic linker, such as
// "libcurl.so.4"; `name`: its name for people. A library that was there when Muster was installed
// and is missing now ends the program.
void *library_load(const char *file, const char *name);

#endif
