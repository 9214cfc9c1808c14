// Loads libcurl at the first call of one of its functions. With its dependencies it is thirty
// libraries: loading them takes longer than most commands, and 5 MB in a master without webhooks.
// So no program is linked with it. The functions here have the names and types of libcurl's header
// and forward to the library.
#include <curl/curl.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/os/library.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo

#define CALLS(X)                                                                                   \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_free)                                                                                   \
    X(curl_global_init)                                                                            \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_init)                                                                             \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_wakeup)                                                                           \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_url)                                                                                    \
    X(curl_url_cleanup)                                                                            \
    X(curl_url_get)                                                                                \
    X(curl_url_set)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    CALLS(MEMBER)
#undef MEMBER
} library;

static void load_libcurl(void)
{
    void *handle = library_load(CURL_LIBRARY, "libcurl");
#define FIND(name)                                                                                 \
    library.name = (__typeof__(name) *)dlsym(handle, #name);                                       \
    must(library.name);
    CALLS(FIND)
#undef FIND
}

#define REAL(name) (pthread_once(&once, load_libcurl), library.name)
static pthread_once_t once = PTHREAD_ONCE_INIT;

CURLcode curl_global_init(long flags)
{
    return REAL(curl_global_init)(flags);
}

void curl_free(void *p)
{
    REAL(curl_free)(p);
}

CURL *curl_easy_init(void)
{
    return REAL(curl_easy_init)();
}

void curl_easy_cleanup(CURL *h)
{
    REAL(curl_easy_cleanup)(h);
}

// The number of an option determines the type of its value.
CURLcode curl_easy_setopt(CURL *h, CURLoption option, ...)
{
    CURLcode rc;
    va_list args;
    va_start(args, option);
    if (option < CURLOPTTYPE_OBJECTPOINT)
        rc = REAL(curl_easy_setopt)(h, option, va_arg(args, long));
    else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
        rc = REAL(curl_easy_setopt)(h, option, va_arg(args, curl_off_t));
    else
        rc = REAL(curl_easy_setopt)(h, option, va_arg(args, void *));
    va_end(args);
    return rc;
}

CURLcode curl_easy_getinfo(CURL *h, CURLINFO info, ...)
{
    va_list args;
    va_start(args, info);
    CURLcode rc = REAL(curl_easy_getinfo)(h, info, va_arg(args, void *));
    va_end(args);
    return rc;
}

CURLcode curl_easy_perform(CURL *h)
{
    return REAL(curl_easy_perform)(h);
}

const char *curl_easy_strerror(CURLcode code)
{
    return REAL(curl_easy_strerror)(code);
}

CURLM *curl_multi_init(void)
{
    return REAL(curl_multi_init)();
}

CURLMcode curl_multi_cleanup(CURLM *m)
{
    return REAL(curl_multi_cleanup)(m);
}

CURLMcode curl_multi_add_handle(CURLM *m, CURL *h)
{
    return REAL(curl_multi_add_handle)(m, h);
}

CURLMcode curl_multi_remove_handle(CURLM *m, CURL *h)
{
    return REAL(curl_multi_remove_handle)(m, h);
}

CURLMcode curl_multi_perform(CURLM *m, int *running)
{
    return REAL(curl_multi_perform)(m, running);
}

CURLMsg *curl_multi_info_read(CURLM *m, int *left)
{
    return REAL(curl_multi_info_read)(m, left);
}

CURLMcode curl_multi_poll(CURLM *m, struct curl_waitfd *more, unsigned count, int timeout, int *n)
{
    return REAL(curl_multi_poll)(m, more, count, timeout, n);
}

CURLMcode curl_multi_wakeup(CURLM *m)
{
    return REAL(curl_multi_wakeup)(m);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
    return REAL(curl_slist_append)(list, text);
}

void curl_slist_free_all(struct curl_slist *list)
{
    REAL(curl_slist_free_all)(list);
}

CURLU *curl_url(void)
{
    return REAL(curl_url)();
}

void curl_url_cleanup(CURLU *url)
{
    REAL(curl_url_cleanup)(url);
}

CURLUcode curl_url_get(CURLU *url, CURLUPart part, char **text, unsigned flags)
{
    return REAL(curl_url_get)(url, part, text, flags);
}

CURLUcode curl_url_set(CURLU *url, CURLUPart part, const char *text, unsigned flags)
{
    return REAL(curl_url_set)(url, part, text, flags);
}
