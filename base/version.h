// Which build this is: "0.1.0+abc1234", the version and the git commit it was built from, with
// "-dirty" behind it when files had been changed; "0.1.0" alone when it was not built from a clone.
// It is for people; what programs compare is MUSTER_VERSION.
#ifndef MUSTER_BASE_VERSION_H
#define MUSTER_BASE_VERSION_H

extern const char muster_version[];

#endif
