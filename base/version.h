// The version of this build, for people: "0.1.0+abc1234", with the git commit. "-dirty" follows if
// files had changed since the commit. A build outside a git clone is only "0.1.0". Programs compare
// MUSTER_VERSION instead.
#ifndef MUSTER_BASE_VERSION_H
#define MUSTER_BASE_VERSION_H

extern const char muster_version[];

#endif
